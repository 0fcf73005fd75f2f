# Writes the linker's list of exports from `nm -g --defined-only` of all objects: names in gradus:: except
# those in a namespace named in `internal`, at any depth. Names are the compiler's:
# _ZN6gradus4core4NodeD2Ev is gradus::core::Node's destructor. Weak symbols with lambdas or packs among
# their arguments are left out: they come from templates that each user's own compiler instantiates.
# The C interface's functions, gradus_..., are exported too.
BEGIN {
  print "{ global:"
  count = split(internal, name)
  for (i = 1; i <= count; ++i) names = names (i > 1 ? "|" : "") length(name[i]) name[i]
  hidden = "^([0-9]+[a-z_]+)*(" names ")[0-9]"
}
match($3, /^_Z[A-Z]*NV?K?[RO]?6gradus/) {
  rest = substr($3, RLENGTH + 1)
  if (!($2 == "W" && rest ~ /Ul|[IE]J/) && rest !~ hidden && !seen[$3]++) print $3 ";"
}
$2 == "T" && $3 ~ /^gradus_[a-z_]+$/ && !seen[$3]++ { print $3 ";" }
END { print "local: *; };" }
