#pragma once
// For the library's own .cpp files: makes core:: (check, record, empty, ...) and internal::, which
// users do not see, available without a prefix. No public header includes this.

namespace gradus {
namespace core {}
namespace internal {}
using namespace core;
using namespace internal;
}  // namespace gradus
