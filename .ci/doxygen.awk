# The filter through which doxygen reads our headers. Doxygen demands a comment for each name and reports a
# missing one as an error; this adds what our headers say only once. Line numbers do not change.
# - A comment after several names (Tensor weight, bias;  ///< ...) describes each of them.
# - Names that all models share are described here.
# - Options, constructors and call operators without a comment are described by their struct's comment.

function description(line) {
  if (line ~ /^ *static Fields fields\(/) return "The configuration's entries, with their limits."
  if (line ~ /^ *static constexpr const char\* kind = /) return "The model's kind in config.json."
  if (line ~ /^ *using Config = /) return "The model's configuration."
  if (line ~ /^ *const [A-Za-z]*Config config;/) return "The configuration that the model was made from."
  if (line ~ /^ *struct [A-Za-z0-9]+(Options|Config) {/) {
    match(line, /[A-Za-z0-9]+(Options|Config) /)
    return "Options of " substr(line, RSTART, RLENGTH - (line ~ /Options / ? 8 : 7)) "."
  }
  if (line ~ /^ +(\[\[nodiscard\]\] )?(constexpr )?(explicit )?[A-Z][A-Za-z0-9]*\(/ || line ~ / operator\(\)\(/ ||
      line ~ / = default;$/ || line ~ /^ *using [A-Za-z]*::[A-Za-z]*;/) return "&zwnj;"
}
function flush(more) { if (NR > 1) print held more; held = "" }

# The comment at the head of a file describes the file.
NR == 1 { $0 = "/// @file"; head = 1 }
head && NR > 1 { head = sub(/^\/\//, "///") }

# Indented lines of a comment are code.
{ code = /^ *\/\/\/   +[^ ]/; flush(code && !in_code ? " @code{.cpp}" : !code && in_code ? " @endcode" : "")
  in_code = code; held = $0 }
/^ *\/\/\/@{/ { group = 1 }
/^ *\/\/\/@}/ { group = 0 }
/^[^(]*,[^(]*;  *\/\/\/</ {
  at = index($0, "///<"); note = " /**< " substr($0, at + 4) " */"; names = substr($0, 1, at - 1)
  sub(/; *$/, ";", names); gsub(/, /, "," note " ", names); held = names note; next
}
{ described = above || group; above = /^ *\/\/\// || (above && /^ *(template|requires) /)
  text = described || /\/\/\// ? "" : description($0); held = (text ? "/** " text " */ " : "") $0 }
END { flush("") }
