// A cuDNN of another CUDA than the driver's: it opens and does not start.
#include <cudnn.h>

extern "C" {

size_t cudnnGetVersion() { return 91900; }
cudnnStatus_t cudnnCreate(cudnnHandle_t*) { return CUDNN_STATUS_NOT_INITIALIZED; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "it does not start"; }
void cudnnGetLastErrorString(char*, size_t) {}
cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t*) { return CUDNN_STATUS_NOT_INITIALIZED; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_NOT_INITIALIZED; }
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*) {
  return CUDNN_STATUS_NOT_INITIALIZED;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t) { return CUDNN_STATUS_NOT_INITIALIZED; }
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_NOT_INITIALIZED;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_NOT_INITIALIZED; }
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, int64_t*, void*) {
  return CUDNN_STATUS_NOT_INITIALIZED;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, const void*) {
  return CUDNN_STATUS_NOT_INITIALIZED;
}

}  // extern "C"
