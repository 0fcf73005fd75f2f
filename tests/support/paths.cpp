#include "tests/support/paths.h"

namespace gradus {

std::string testing::source_path(const std::string& path) { return GRADUS_SOURCE_DIR "/" + path; }
std::string testing::program_path(const std::string& name) { return GRADUS_BIN_DIR "/" + name; }

}  // namespace gradus
