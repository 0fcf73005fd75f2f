// A plugin that contains gradus with hidden symbols, and uses its threads.
#include <gradus/gradus.h>

using namespace gradus;

extern "C" [[gnu::visibility("default")]] float work() {
  set_num_threads(2);
  return matmul(ones({300, 300}), ones({300, 300})).exp().sum().item<float>();
}
