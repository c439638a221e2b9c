// What has no device-neutral interface: the free-memory callback of CUDA's caching allocator, and the
// driver's virtual memory management.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>
#include <cuda.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace outsize::probe {

bool evict_on_cache_miss();

namespace {

using Clock = std::chrono::steady_clock;

enum class OnMiss : std::int64_t { kNothing, kTryLock, kEvict };

std::atomic<OnMiss> on_miss{OnMiss::kNothing};
std::atomic<std::int64_t> misses{0};
std::atomic<std::int64_t> other_thread_got_memory{-1};  // -1: not tried
std::atomic<bool> other_thread_done{false};

// Another thread asks the same allocator for memory. It can only be served if the lock is free.
void try_lock() {
  other_thread_done = false;
  std::thread([] {
    c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).setDevice(c10::Device(c10::DeviceType::CUDA, 0));
    c10::GetAllocator(c10::DeviceType::CUDA)->allocate(512);
    other_thread_done = true;
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  other_thread_got_memory = other_thread_done ? 1 : 0;
}

class ProbeCallback : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    ++misses;
    const OnMiss what = on_miss.load();
    if (what == OnMiss::kTryLock) {
      on_miss = OnMiss::kNothing;
      try_lock();
    }
    return what == OnMiss::kEvict && evict_on_cache_miss();
  }
};

// One of the driver's functions. Not linked against: the library comes with the driver.
template <typename Function>
Function* driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library ? dlsym(library, name) : nullptr;
  TORCH_CHECK(found, "libcuda.so.1 has no ", name);
  return reinterpret_cast<Function*>(found);
}
#define DRIVER(name) driver<decltype(name)>(#name)

// Microseconds of each call of `work`, one after the other.
template <typename Work>
void timed(std::vector<double>& out, std::int64_t times, Work work) {
  for (std::int64_t i = 0; i < times; ++i) {
    const auto start = Clock::now();
    const CUresult result = work(i);
    out.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    TORCH_CHECK(result == CUDA_SUCCESS, "the driver answered ", static_cast<int>(result));
  }
}

// In this order, in microseconds: reserve; of each chunk create, map, set access, unmap; map again and set access of all in
// one call; unmap of all in one call; of each chunk release; free of the range.
std::vector<double> virtual_memory(std::int64_t chunk_bytes, std::int64_t chunks) {
  const auto bytes = static_cast<std::size_t>(chunk_bytes);
  const std::size_t all = bytes * static_cast<std::size_t>(chunks);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  std::vector<CUmemGenericAllocationHandle> handles(static_cast<std::size_t>(chunks));
  CUdeviceptr base = 0;
  std::vector<double> out;
  const auto at = [&](std::int64_t i) { return base + static_cast<std::size_t>(i) * bytes; };
  auto* const reserve = DRIVER(cuMemAddressReserve);
  auto* const create = DRIVER(cuMemCreate);
  auto* const map = DRIVER(cuMemMap);
  auto* const set_access = DRIVER(cuMemSetAccess);
  auto* const unmap = DRIVER(cuMemUnmap);
  auto* const release = DRIVER(cuMemRelease);
  auto* const free_range = DRIVER(cuMemAddressFree);
  timed(out, 1, [&](std::int64_t) { return reserve(&base, all, 0, 0, 0); });
  timed(out, chunks, [&](std::int64_t i) { return create(&handles[static_cast<std::size_t>(i)], bytes, &prop, 0); });
  timed(out, chunks, [&](std::int64_t i) { return map(at(i), bytes, 0, handles[static_cast<std::size_t>(i)], 0); });
  timed(out, chunks, [&](std::int64_t i) { return set_access(at(i), bytes, &access, 1); });
  timed(out, chunks, [&](std::int64_t i) { return unmap(at(i), bytes); });
  timed(out, chunks, [&](std::int64_t i) { return map(at(i), bytes, 0, handles[static_cast<std::size_t>(i)], 0); });
  timed(out, 1, [&](std::int64_t) { return set_access(base, all, &access, 1); });
  timed(out, 1, [&](std::int64_t) { return unmap(base, all); });
  timed(out, chunks, [&](std::int64_t i) { return release(handles[static_cast<std::size_t>(i)]); });
  timed(out, 1, [&](std::int64_t) { return free_range(base, all); });
  return out;
}

}  // namespace

}  // namespace outsize::probe

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("outsize_probe", outsize::probe::ProbeCallback)
}

namespace probe = outsize::probe;

TORCH_LIBRARY_FRAGMENT(outsize_probe, m) {
  m.def("virtual_memory(int chunk_bytes, int chunks) -> float[]", &probe::virtual_memory);
  m.def("on_cache_miss(int what) -> ()", [](std::int64_t what) { probe::on_miss = static_cast<probe::OnMiss>(what); });
  m.def("cache_misses() -> int", [] { return probe::misses.load(); });
  m.def("other_thread_got_memory() -> int", [] { return probe::other_thread_got_memory.load(); });
  m.def("other_thread_done() -> bool", [] { return probe::other_thread_done.load(); });
}
