#include "platforms/host/machine_cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace outsize::host {
namespace {

struct Hierarchy {
  std::string mount;      // where it is mounted
  std::string mount_root; // which group is the mount's root, as /proc/self/mountinfo tells
  bool v2 = false;
};

bool has_word(const std::string& list, const std::string& word) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

// Lines: "36 35 98:0 /top /mount options [tags] - type source super-options".
std::vector<Hierarchy> memory_hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash));
    std::istringstream tail(line.substr(dash + 3));
    std::string skip, mount_root, mount, type, source, options;
    head >> skip >> skip >> skip >> mount_root >> mount;
    tail >> type >> source >> options;
    if (type == "cgroup2") found.push_back({mount, mount_root, true});
    else if (type == "cgroup" && has_word(options, "memory")) found.push_back({mount, mount_root, false});
  }
  return found;
}

// Lines: "4:memory:/path" (v1), "0::/path" (v2).
std::string group_path(const std::string& root, bool v2) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? line.substr(0, first) == "0" && controllers.empty() : has_word(controllers, "memory")) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

// -1: no such file, or "max".
Bytes read_bytes(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) return -1;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (end == text.c_str() || *end != '\0' || value > 0x7fffffffffffffffULL) return -1;
  return static_cast<Bytes>(value);
}

// A line of memory.stat; 0 where there is none.
Bytes read_field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  Bytes value = 0;
  while (file >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

void take_tighter(const std::string& directory, bool v2, Bytes total, CgroupMemory* tightest) {
  const Bytes limit = read_bytes(directory + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (limit < 0 || (total > 0 && limit >= total)) return;
  if (tightest->limit != 0 && limit >= tightest->limit) return;
  const Bytes used = read_bytes(directory + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  // Files read earlier count as used, but go when memory is wanted.
  const Bytes cached = read_field(directory + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file");
  *tightest = {limit, std::max<Bytes>(used - cached, 0)};
}

}  // namespace

CgroupMemory cgroup_memory(const std::string& root, Bytes total) {
  CgroupMemory tightest;
  for (const Hierarchy& hierarchy : memory_hierarchies(root)) {
    std::string path = group_path(root, hierarchy.v2);
    // Inside a container the mount shows only our part of the tree: /a/b/c mounted from /a is /b/c;
    // a path that is not below it ("/../x", or hidden by a namespace) leaves the mount's root.
    if (hierarchy.mount_root != "/") {
      const std::string& top = hierarchy.mount_root;
      const bool below = path.compare(0, top.size(), top) == 0 &&
                         (path.size() == top.size() || path[top.size()] == '/');
      path = below ? path.substr(top.size()) : "/";
    }
    if (path.find("..") != std::string::npos) path = "/";
    const std::string mount = root + hierarchy.mount;
    while (!path.empty() && path != "/") {
      take_tighter(mount + path, hierarchy.v2, total, &tightest);
      path.erase(path.rfind('/'));
    }
    take_tighter(mount, hierarchy.v2, total, &tightest);
  }
  return tightest;
}

}  // namespace outsize::host
