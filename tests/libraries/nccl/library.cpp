#include "tests/libraries/nccl/library.h"

#include <nccl.h>

namespace {
lacuna::test::NcclState state;
}

extern "C" {

lacuna::test::NcclState* nccl_state_of_test() { return &state; }

ncclResult_t ncclGetVersion(int* version) {
  *version = 22703;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclSuccess; }
ncclResult_t ncclCommInitRank(ncclComm_t* ranks, int, ncclUniqueId, int) {
  *ranks = reinterpret_cast<ncclComm_t>(&state);
  ++state.joined;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  ++state.aborted;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  ++state.destroyed;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = static_cast<ncclResult_t>(state.async_error);
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error"; }
const char* ncclGetLastError(ncclComm_t) { return "the link to rank 1 is down"; }
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) { return ncclSuccess; }
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return static_cast<ncclResult_t>(state.send_error);
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) { return ncclSuccess; }
ncclResult_t ncclGroupStart() {
  ++state.open_groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  --state.open_groups;
  return ncclSuccess;
}

}  // extern "C"
