// A driver without a device (CMakeLists.txt).
#include <dlfcn.h>

extern "C" {

int cuInit(unsigned) { return 100; }  // no device: CUDA's runtime goes no further
int cuGetExportTable() { return 500; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = reinterpret_cast<void*>(0x1000);
  return 0;
}
int cuKernelGetFunction(void** function, void*) {
  *function = reinterpret_cast<void*>(0x1000);
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "none";
  return 0;
}
int cuGetErrorName(int, const char** text) {
  *text = "none";
  return 0;
}
int cuGetProcAddress(const char* name, void** function, int, unsigned long) {
  *function = dlsym(RTLD_DEFAULT, name);
  return *function != nullptr ? 0 : 500;
}
int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long, void*) {
  *function = dlsym(RTLD_DEFAULT, name);
  return *function != nullptr ? 0 : 500;
}
@stubs@
}  // extern "C"
