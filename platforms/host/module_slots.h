// The slots through which the modules of this process call functions of libc (their global offset
// tables), filled anew.
#pragma once

#include <span>
#include <string_view>

namespace outsize::host {

struct Replacement {
  std::string_view name;
  void* function = nullptr;
};

// In all modules that the linker is done with, except libc, the linker and the one that holds `ours`.
// Quick where none was loaded since the last time; one that is just being loaded is left for the next.
// Always with the same arguments. Any thread, without a lock that a library's constructor could wait
// for.
void replace_in_modules(std::span<const Replacement> replacements, const void* ours);

// Around a fork: a child must not inherit the linker's lock from a pass of ours. In both processes.
void module_slots_before_fork();
void module_slots_after_fork();

}  // namespace outsize::host
