#!/usr/bin/env python3
"""Prints the index of the learner's steps as a page for Doxygen: title, commands and pictures of each step in the guide.

usage: .ci/steps.py examples/guide/student.md
"""
import re
import sys

guide = open(sys.argv[1], encoding="utf-8").read()
steps = re.split(r"^(?=\*\*\d+\. [^*]+\*\*)|^(?=## )", guide, flags=re.MULTILINE)

print("# The steps at a glance\n")
print("Each step of the [guide for learners](examples/guide/student.md), its commands and its pictures.\n")
for step in steps:
    title = re.match(r"\*\*(\d+\. [^*]+?)\.?\*\*", step)
    commands = re.findall(r"`(build/bin/[^`]+)`|^(build/bin/.+)$", step, flags=re.MULTILINE)
    if not title or not commands:  # an answer, or another section
        continue
    print(f"## {title.group(1)}\n\n```")
    for command in commands:
        print(" ".join("".join(command).split()))
    print("```")
    for caption, picture in re.findall(r"^!\[([^\]]*)\]\(pictures/([^)]+)\)$", step, flags=re.MULTILINE):
        print(f'\n\\image html {picture} "{caption}" width=640px')
    print()
