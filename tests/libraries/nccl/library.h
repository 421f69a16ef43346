// An NCCL that sends nothing and fails when it is told to (library.cpp).
#pragma once

namespace lacuna::test {

struct NcclState {
  int async_error = 0;  // what ncclCommGetAsyncError tells
  int send_error = 0;   // what ncclSend returns
  int joined = 0, aborted = 0, destroyed = 0;
  int open_groups = 0;
};

}  // namespace lacuna::test
