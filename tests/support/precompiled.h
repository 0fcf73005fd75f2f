// The Makefile precompiles this header for most test files, because Catch2 takes most of their
// compile time. Builds with ccache do not use this header, so each test must still include all
// headers that it needs.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>
