#include "platforms/host/system_calls.h"

#include <elf.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>

#include "core/base/types.h"

namespace outsize::host {
namespace {

// --- what is managed ------------------------------------------------------------------------------

struct Covered {
  std::atomic<const AreaTable*> areas{nullptr};
  std::atomic<int> inside{0};  // threads between reading `areas` and their last use of it
};
std::array<Covered, 4> covered;

bool managed(Address address) noexcept {
  for (Covered& entry : covered) {
    entry.inside.fetch_add(1);
    const AreaTable* areas = entry.areas.load();
    const bool found = areas != nullptr && areas->contains(address);
    entry.inside.fetch_sub(1);
    if (found) return true;
  }
  return false;
}

// More than this is not touched for one call: it may do less than it is asked for, and a buffer may be
// larger than the budget.
constexpr std::size_t kTouched = 1 << 20;
// Somebody else may need the room just touched; but who asks that often will never be served.
constexpr int kPatience = 100'000;

// Makes the first pages of a buffer present, and writable where the kernel will write. False where
// none of it is managed.
bool touch(const void* buffer, std::size_t bytes, bool write) noexcept {
  const Address begin = address_of(buffer);
  const Address end = begin + std::min(bytes, kTouched);
  bool any = false;
  for (Address at = begin; at < end; at = (at | static_cast<Address>(kPageBytes - 1)) + 1) {
    if (!managed(at)) continue;
    any = true;
    auto* byte = static_cast<unsigned char*>(pointer_to(at));
    if (write) __atomic_fetch_or(byte, 0, __ATOMIC_RELAXED);
    else (void)__atomic_load_n(byte, __ATOMIC_RELAXED);
  }
  return any;
}

bool touch(const iovec* parts, std::size_t count, bool write) noexcept {
  bool any = false;
  for (std::size_t i = 0, bytes = 0; i < count && bytes < kTouched; bytes += parts[i++].iov_len) {
    any |= touch(parts[i].iov_base, parts[i].iov_len, write);
  }
  return any;
}

template <class Call, class Touch>
ssize_t with_bytes(const Call& call, const Touch& touch_it) {
  for (int tries = 0;; ++tries) {
    const ssize_t done = call();
    if (done >= 0 || errno != EFAULT || tries == kPatience) return done;
    if (!touch_it()) {
      errno = EFAULT;
      return done;
    }
    if (tries > 8) sched_yield();
  }
}

// --- the replacements -----------------------------------------------------------------------------

ssize_t our_read(int fd, void* to, std::size_t bytes) {
  return with_bytes([&] { return ::read(fd, to, bytes); }, [&] { return touch(to, bytes, true); });
}
ssize_t our_write(int fd, const void* from, std::size_t bytes) {
  return with_bytes([&] { return ::write(fd, from, bytes); }, [&] { return touch(from, bytes, false); });
}
ssize_t our_pread(int fd, void* to, std::size_t bytes, off_t at) {
  return with_bytes([&] { return ::pread(fd, to, bytes, at); }, [&] { return touch(to, bytes, true); });
}
ssize_t our_pwrite(int fd, const void* from, std::size_t bytes, off_t at) {
  return with_bytes([&] { return ::pwrite(fd, from, bytes, at); },
                    [&] { return touch(from, bytes, false); });
}
ssize_t our_readv(int fd, const iovec* to, int count) {
  return with_bytes([&] { return ::readv(fd, to, count); },
                    [&] { return touch(to, static_cast<std::size_t>(std::max(count, 0)), true); });
}
ssize_t our_writev(int fd, const iovec* from, int count) {
  return with_bytes([&] { return ::writev(fd, from, count); },
                    [&] { return touch(from, static_cast<std::size_t>(std::max(count, 0)), false); });
}
ssize_t our_preadv(int fd, const iovec* to, int count, off_t at) {
  return with_bytes([&] { return ::preadv(fd, to, count, at); },
                    [&] { return touch(to, static_cast<std::size_t>(std::max(count, 0)), true); });
}
ssize_t our_pwritev(int fd, const iovec* from, int count, off_t at) {
  return with_bytes([&] { return ::pwritev(fd, from, count, at); },
                    [&] { return touch(from, static_cast<std::size_t>(std::max(count, 0)), false); });
}
ssize_t our_preadv2(int fd, const iovec* to, int count, off_t at, int flags) {
  return with_bytes([&] { return ::preadv2(fd, to, count, at, flags); },
                    [&] { return touch(to, static_cast<std::size_t>(std::max(count, 0)), true); });
}
ssize_t our_pwritev2(int fd, const iovec* from, int count, off_t at, int flags) {
  return with_bytes([&] { return ::pwritev2(fd, from, count, at, flags); },
                    [&] { return touch(from, static_cast<std::size_t>(std::max(count, 0)), false); });
}
ssize_t our_recv(int fd, void* to, std::size_t bytes, int flags) {
  return with_bytes([&] { return ::recv(fd, to, bytes, flags); }, [&] { return touch(to, bytes, true); });
}
ssize_t our_send(int fd, const void* from, std::size_t bytes, int flags) {
  return with_bytes([&] { return ::send(fd, from, bytes, flags); },
                    [&] { return touch(from, bytes, false); });
}
ssize_t our_recvfrom(int fd, void* to, std::size_t bytes, int flags, sockaddr* peer, socklen_t* length) {
  return with_bytes([&] { return ::recvfrom(fd, to, bytes, flags, peer, length); },
                    [&] { return touch(to, bytes, true); });
}
ssize_t our_sendto(int fd, const void* from, std::size_t bytes, int flags, const sockaddr* peer,
                   socklen_t length) {
  return with_bytes([&] { return ::sendto(fd, from, bytes, flags, peer, length); },
                    [&] { return touch(from, bytes, false); });
}
ssize_t our_recvmsg(int fd, msghdr* message, int flags) {
  return with_bytes([&] { return ::recvmsg(fd, message, flags); },
                    [&] { return touch(message->msg_iov, message->msg_iovlen, true); });
}
ssize_t our_sendmsg(int fd, const msghdr* message, int flags) {
  return with_bytes([&] { return ::sendmsg(fd, message, flags); },
                    [&] { return touch(message->msg_iov, message->msg_iovlen, false); });
}

// libc's own calls are inside it: piece by piece, touched first, and again where that was too late.
template <class Call>
std::size_t by_pieces(char* buffer, std::size_t size, std::size_t count, FILE* file, bool write,
                      const Call& call) {
  const std::size_t bytes = size * count;
  std::size_t done = 0;
  for (int tries = 0; done < bytes;) {
    const std::size_t piece = std::min(bytes - done, kTouched);
    (void)touch(buffer + done, piece, write);
    errno = 0;
    const std::size_t got = call(buffer + done, piece);
    done += got;
    if (got == piece) continue;
    if (std::ferror(file) == 0 || errno != EFAULT || ++tries > kPatience) break;
    std::clearerr(file);
  }
  return done / size;
}

bool by_hand(const void* buffer, std::size_t size, std::size_t count, FILE* file) {
  return size > 0 && count > 0 && managed(address_of(buffer)) && std::ferror(file) == 0;
}

std::size_t our_fread(void* to, std::size_t size, std::size_t count, FILE* file) {
  if (!by_hand(to, size, count, file)) return std::fread(to, size, count, file);
  return by_pieces(static_cast<char*>(to), size, count, file, true, [&](char* at, std::size_t bytes) {
    return std::fread(at, 1, bytes, file);
  });
}
std::size_t our_fwrite(const void* from, std::size_t size, std::size_t count, FILE* file) {
  if (!by_hand(from, size, count, file)) return std::fwrite(from, size, count, file);
  auto* buffer = const_cast<char*>(static_cast<const char*>(from));  // only read
  return by_pieces(buffer, size, count, file, false, [&](char* at, std::size_t bytes) {
    return std::fwrite(at, 1, bytes, file);
  });
}

struct Replacement {
  std::string_view name;
  void* function;
};
template <class Function>
void* slot_value(Function* function) { return reinterpret_cast<void*>(function); }

const Replacement kReplacements[] = {
    {"read", slot_value(our_read)},           {"write", slot_value(our_write)},
    {"pread", slot_value(our_pread)},         {"pread64", slot_value(our_pread)},
    {"pwrite", slot_value(our_pwrite)},       {"pwrite64", slot_value(our_pwrite)},
    {"readv", slot_value(our_readv)},         {"writev", slot_value(our_writev)},
    {"preadv", slot_value(our_preadv)},       {"preadv64", slot_value(our_preadv)},
    {"pwritev", slot_value(our_pwritev)},     {"pwritev64", slot_value(our_pwritev)},
    {"preadv2", slot_value(our_preadv2)},     {"preadv64v2", slot_value(our_preadv2)},
    {"pwritev2", slot_value(our_pwritev2)},   {"pwritev64v2", slot_value(our_pwritev2)},
    {"recv", slot_value(our_recv)},           {"send", slot_value(our_send)},
    {"recvfrom", slot_value(our_recvfrom)},   {"sendto", slot_value(our_sendto)},
    {"recvmsg", slot_value(our_recvmsg)},     {"sendmsg", slot_value(our_sendmsg)},
    {"fread", slot_value(our_fread)},         {"fwrite", slot_value(our_fwrite)},
};
static_assert(sizeof(off_t) == 8);  // pread and pread64 are one function

void* replacement_of(const char* name) {
  for (const Replacement& known : kReplacements) {
    if (known.name == name) return known.function;
  }
  return nullptr;
}

// --- the slots of a module ------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr bool is_slot(unsigned long type) { return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT; }
#elif defined(__aarch64__)
constexpr bool is_slot(unsigned long type) { return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT; }
#else
constexpr bool is_slot(unsigned long) { return false; }
#endif

struct Module {
  Address base = 0;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela)* relocations[2] = {nullptr, nullptr};  // of calls, of all else
  std::size_t counts[2] = {0, 0};
  Address sealed = 0, sealed_end = 0;  // made read-only once the linker is done
};

Module describe(const dl_phdr_info& info) {
  Module module;
  module.base = info.dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    const Address begin = module.base + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = static_cast<const ElfW(Dyn)*>(pointer_to(begin));
    if (header.p_type == PT_GNU_RELRO) module.sealed = begin, module.sealed_end = begin + header.p_memsz;
  }
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    const void* value = pointer_to(dynamic->d_un.d_ptr);
    const std::size_t count = dynamic->d_un.d_val / sizeof(ElfW(Rela));
    switch (dynamic->d_tag) {
      case DT_SYMTAB: module.symbols = static_cast<const ElfW(Sym)*>(value); break;
      case DT_STRTAB: module.names = static_cast<const char*>(value); break;
      case DT_JMPREL: module.relocations[0] = static_cast<const ElfW(Rela)*>(value); break;
      case DT_PLTRELSZ: module.counts[0] = count; break;
      case DT_RELA: module.relocations[1] = static_cast<const ElfW(Rela)*>(value); break;
      case DT_RELASZ: module.counts[1] = count; break;
      default: break;
    }
  }
  return module;
}

bool holds(const dl_phdr_info& info, Address address) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& header = info.dlpi_phdr[i];
    const Address begin = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && address >= begin && address < begin + header.p_memsz) return true;
  }
  return false;
}

void fill(const Module& module, Address slot, void* function) {
  auto* at = static_cast<void**>(pointer_to(slot));
  if (*at == function) return;
  const Address page = slot & ~static_cast<Address>(kPageBytes - 1);
  const bool sealed = slot >= module.sealed && slot < module.sealed_end;
  if (sealed && mprotect(pointer_to(page), kPageBytes, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(at, function, __ATOMIC_RELEASE);
  if (sealed) (void)mprotect(pointer_to(page), kPageBytes, PROT_READ);
}

int cover_module(dl_phdr_info* info, std::size_t, void*) {
  // The linker's and libc's own calls are theirs; the kernel's page has none; ours must reach libc.
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  for (const char* theirs : {"/ld-linux", "/libc.so", "/libc-", "linux-vdso", "/libasan", "/libtsan"}) {
    if (path.find(theirs) != std::string_view::npos) return 0;
  }
  if (holds(*info, address_of(slot_value(our_read)))) return 0;
  const Module module = describe(*info);
  if (module.symbols == nullptr || module.names == nullptr) return 0;
  // A linker that leaves these as offsets (musl) is not one whose slots we know.
  if (address_of(module.symbols) < module.base || address_of(module.names) < module.base) return 0;
  for (int kind : {0, 1}) {
    for (std::size_t i = 0; module.relocations[kind] != nullptr && i < module.counts[kind]; ++i) {
      const ElfW(Rela)& entry = module.relocations[kind][i];
      if (!is_slot(ELF64_R_TYPE(entry.r_info))) continue;
      const char* name = module.names + module.symbols[ELF64_R_SYM(entry.r_info)].st_name;
      if (void* function = replacement_of(name)) fill(module, module.base + entry.r_offset, function);
    }
  }
  return 0;
}

int count_loads(dl_phdr_info* info, std::size_t, void* loads) {
  *static_cast<unsigned long long*>(loads) = info->dlpi_adds;
  return 1;  // the same for every module
}

}  // namespace

CoveredAreas::CoveredAreas(const AreaTable& areas) {
  for (Covered& entry : covered) {
    const AreaTable* expected = nullptr;
    if (entry.areas.compare_exchange_strong(expected, &areas)) {
      mine_ = &entry.areas;
      return;
    }
  }
}

CoveredAreas::~CoveredAreas() {
  for (Covered& entry : covered) {
    if (&entry.areas != mine_) continue;
    entry.areas.store(nullptr);
    while (entry.inside.load() != 0) sched_yield();
  }
}

void cover_system_calls() {
  static std::mutex mutex;
  static unsigned long long covered_loads = 0;
  const std::lock_guard lock(mutex);
  unsigned long long loads = 0;
  dl_iterate_phdr(count_loads, &loads);
  if (loads == covered_loads) return;
  covered_loads = loads;
  dl_iterate_phdr(cover_module, nullptr);
}

}  // namespace outsize::host
