#include "core/communicator.h"

namespace lacuna {
namespace {

class SingleProcess final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(const Tensor&) override {}
  void broadcast(const Tensor&, int root) override { check(root); }
  std::vector<Tensor> gather(const Tensor& tensor, int root) override {
    check(root);
    return {tensor};
  }
  void barrier() override {}

 private:
  static void check(int root) { expect(root == 0, "expected rank 0, the only one, as the root, got {}", root); }
};

}  // namespace

Communicator& single_process() {
  static SingleProcess alone;
  return alone;
}

}  // namespace lacuna
