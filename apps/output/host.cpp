#include "apps/output/host.h"

#include <utility>

namespace lacuna::apps {
namespace {

Host* current = nullptr;

}  // namespace

Host* command_host() { return current; }

void stop_if_host_wants() {
  if (current != nullptr && current->wants_to_stop()) throw Stopped{};
}

HostScope::HostScope(Host& host) : before_(std::exchange(current, &host)) {}
HostScope::~HostScope() { current = before_; }

}  // namespace lacuna::apps
