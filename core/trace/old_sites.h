// Sites of traces that are older than idiom classes (docs/TRACE.md, version 3): they get the class that their names say, and so
// become what they would be in a trace of now.
//
// Names stand before the ops that have them. Memory: two words for each site that has a name.
#pragma once

#include <unordered_map>

#include "core/base/idioms.h"
#include "core/trace/trace_event.h"

namespace outsize::trace {

class OldSites {
 public:
  // Every event in turn.
  void renew(Event& event) {
    if (event.site == 0) return;
    if (event.kind == Event::Kind::kSiteName) {
      renewed_[event.site] = with_idiom_class(event.site, idiom_class_named(event.text));
    }
    const auto at = renewed_.find(event.site);
    event.site = at != renewed_.end() ? at->second : with_idiom_class(event.site, kNoIdiomClass);
  }

 private:
  std::unordered_map<SiteId, SiteId> renewed_;
};

}  // namespace outsize::trace
