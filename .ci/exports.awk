# Writes the linker's list of exports from `nm -g --defined-only` of all objects: names in gradus:: except
# those that start with an entry of `internal`. Names are the compiler's: _ZN6gradus4core4NodeD2Ev is
# gradus::core::Node's destructor. Weak symbols with lambdas or packs among their arguments are left out:
# they come from templates that each user's own compiler instantiates.
BEGIN {
  print "{ global:"
  count = split(internal, hidden)
  for (i in hidden) {
    parts = split(hidden[i], part, "::")
    hidden[i] = ""
    for (j = 1; j <= parts; ++j) hidden[i] = hidden[i] length(part[j]) part[j]
  }
}
match($3, /^_Z[A-Z]*NV?K?[RO]?6gradus/) {
  rest = substr($3, RLENGTH + 1)
  public = !($2 == "W" && rest ~ /Ul|IJ/) && !seen[$3]++
  for (i in hidden) if (index(rest, hidden[i]) == 1) public = 0
  if (public) print $3 ";"
}
END { print "local: *; };" }
