#include "adapter/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <mutex>

#include "adapter/birth_name.h"
#include "adapter/errors.h"
#include "adapter/gate.h"
#include "platforms/host/runtime.h"

namespace outsize::adapter {
namespace {

class ArenaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const address = bytes == 0 ? nullptr : take(bytes);
    c10::profiledCPUMemoryReporter().New(address, bytes);
    // Context and data pointer are the same: oneDNN's raw_allocate asserts it.
    return {address, address, &delete_block, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  static void* take(std::size_t bytes) {
    const GateEntry gate;
    if (gate.runtime() == nullptr) return c10::alloc_cpu(bytes);
    Result<void*> block = gate.runtime()->allocate(bytes);
    if (!block) {
      c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
      Error error = block.error();
      const bool in_op = gate.state().depth > 1;
      if (!in_op && !error.who.empty()) {
        std::string name = birth_name(error.who);
        gate.runtime()->rename_refused(error.who, name);
        error.who = std::move(name);
      }
      throw_error(error);
    }
    return *block;
  }
};

}  // namespace

void delete_block(void* address) {
  if (address == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(address);
  // Blocks born while no runtime was on came from the system, and so did those that oneDNN took
  // from PyTorch's own allocator before we were installed.
  if (host::Runtime::owns(address)) {
    host::Runtime::deallocate(address);
  } else {
    c10::free_cpu(address);
  }
}

void delete_adopted(void* address) {
  if (address != nullptr) host::Runtime::deallocate_adopted(address);
}

void install_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    static auto* const allocator = new ArenaAllocator;  // PyTorch asks for static lifetime
    c10::SetCPUAllocator(allocator);
  });
}

}  // namespace outsize::adapter
