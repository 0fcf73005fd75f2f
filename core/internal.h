#pragma once
// For the library's own .cpp files: there what users write as core::check, core::record,
// core::empty needs no prefix, nor does what no user sees, gradus::internal. No public header
// includes this.

namespace gradus {
namespace core {}
namespace internal {}
using namespace core;
using namespace internal;
}  // namespace gradus
