// Opens the plugin, uses it, closes it, and goes on while its threads go to sleep.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

int main(int, char** argv) {
  for (int i = 0; i < 3; ++i) {
    void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return std::puts(dlerror()), 1;
    reinterpret_cast<float (*)()>(dlsym(plugin, "work"))();
    dlclose(plugin);
    usleep(20000);
  }
  std::puts("closed three times");
}
