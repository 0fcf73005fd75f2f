#pragma once
// For the library's own .cpp files: there what users write as core::check, core::record,
// core::empty needs no prefix. No public header includes this.

namespace gradus {
namespace core {}
using namespace core;
}  // namespace gradus
