#include "platforms/host/module_slots.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "platforms/host/page_mover_ranges.h"

namespace outsize::host {
namespace {

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
  std::size_t relative = 0;
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
      case DT_RELACOUNT: relative = dynamic->d_un.d_val; break;  // that need no symbol; they come first
      default: break;
    }
  }
  relative = std::min(relative, module.counts[1]);
  if (module.relocations[1] != nullptr) module.relocations[1] += relative;
  module.counts[1] -= relative;
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

// The linker's and libc's own calls are theirs, the kernel's page has none, and ours must reach libc.
bool left_alone(const dl_phdr_info& info, const void* ours) {
  std::string_view name = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  for (const char* theirs : {"ld-linux", "libc.so", "libc-", "linux-vdso", "libasan", "libtsan"}) {
    if (name.starts_with(theirs)) return true;
  }
  return holds(info, address_of(ours));
}

// What is writable in this process: of a module that another thread is just loading, the linker has
// still to fill the slots, and seals them when it is done.
std::vector<std::pair<Address, Address>> writable_ranges() {
  std::vector<std::pair<Address, Address>> ranges;
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return {{0, ~Address{0}}};  // nobody can say: nothing is done
  char line[512];
  for (bool begins = true; std::fgets(line, sizeof line, maps) != nullptr;) {
    unsigned long begin = 0, end = 0;
    char access[5] = "";
    if (begins && std::sscanf(line, "%lx-%lx %4s", &begin, &end, access) == 3 && access[1] == 'w') {
      ranges.emplace_back(begin, end);
    }
    begins = std::strchr(line, '\n') != nullptr;
  }
  std::fclose(maps);
  return ranges;
}

struct Known {
  Address base = 0;
  const void* headers = nullptr;
  friend bool operator==(const Known&, const Known&) = default;
};

struct Pass {
  std::span<const Replacement> replacements;
  const void* ours = nullptr;
  std::vector<Known>* covered = nullptr;
  std::vector<std::pair<Address, Address>> writable;
  bool looked = false;
  bool complete = true;

  bool is_writable(Address address) {
    if (!looked) writable = writable_ranges();
    looked = true;
    return std::any_of(writable.begin(), writable.end(), [&](const auto& range) {
      return address >= range.first && address < range.second;
    });
  }
};

void fill(const Module& module, Address slot, void* function) {
  auto* at = static_cast<void**>(pointer_to(slot));
  if (*at == function || *at == nullptr) return;
  const Address page = slot & ~static_cast<Address>(kPageBytes - 1);
  const bool sealed = slot >= module.sealed && slot < module.sealed_end;
  if (sealed && mprotect(pointer_to(page), kPageBytes, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(at, function, __ATOMIC_RELEASE);
  if (sealed) (void)mprotect(pointer_to(page), kPageBytes, PROT_READ);
}

void* replacement_of(const Pass& pass, const char* name) {
  for (const Replacement& known : pass.replacements) {
    if (known.name == name) return known.function;
  }
  return nullptr;
}

void cover_slots(const Pass& pass, const Module& module) {
  for (int kind : {0, 1}) {
    for (std::size_t i = 0; module.relocations[kind] != nullptr && i < module.counts[kind]; ++i) {
      const ElfW(Rela)& entry = module.relocations[kind][i];
      if (!is_slot(ELF64_R_TYPE(entry.r_info))) continue;
      const ElfW(Sym)& symbol = module.symbols[ELF64_R_SYM(entry.r_info)];
      if (symbol.st_shndx != SHN_UNDEF) continue;  // a function of its own that is called the same
      if (void* function = replacement_of(pass, module.names + symbol.st_name)) {
        fill(module, module.base + entry.r_offset, function);
      }
    }
  }
}

int cover_module(dl_phdr_info* info, std::size_t, void* argument) {
  Pass& pass = *static_cast<Pass*>(argument);
  const Known known{info->dlpi_addr, info->dlpi_phdr};
  if (std::find(pass.covered->begin(), pass.covered->end(), known) != pass.covered->end()) return 0;
  if (!left_alone(*info, pass.ours)) {
    const Module module = describe(*info);
    // Offsets here (musl) mean a linker whose slots we do not know.
    const bool ours_to_read = module.symbols != nullptr && module.names != nullptr &&
                              address_of(module.symbols) >= module.base && address_of(module.names) >= module.base;
    if (ours_to_read && module.sealed != module.sealed_end) {
      if (pass.is_writable(module.sealed)) {
        pass.complete = false;
        return 0;
      }
      cover_slots(pass, module);
    }
  }
  pass.covered->push_back(known);
  return 0;
}

struct Loads {
  unsigned long long adds = 0, subs = 0;
  friend bool operator==(const Loads&, const Loads&) = default;
};

int count_loads(dl_phdr_info* info, std::size_t, void* loads) {
  *static_cast<Loads*>(loads) = {info->dlpi_adds, info->dlpi_subs};
  return 1;  // the same for every module
}

std::mutex slots_mutex;

}  // namespace

void replace_in_modules(std::span<const Replacement> replacements, const void* ours) {
  static Loads last;
  static std::vector<Known> modules;
  const std::lock_guard lock(slots_mutex);
  Loads loads;
  dl_iterate_phdr(count_loads, &loads);
  if (loads == last) return;
  if (loads.subs != last.subs) modules.clear();  // another may lie where one has gone
  Pass pass;
  pass.replacements = replacements;
  pass.ours = ours;
  pass.covered = &modules;
  dl_iterate_phdr(cover_module, &pass);
  if (pass.complete) last = loads;
}

void module_slots_before_fork() { slots_mutex.lock(); }
void module_slots_after_fork() { slots_mutex.unlock(); }

}  // namespace outsize::host
