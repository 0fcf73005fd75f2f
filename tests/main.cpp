// Catch2's own main, compiled once: its implementation is slow to compile.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
