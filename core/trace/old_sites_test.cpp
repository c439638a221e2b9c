#include "core/trace/old_sites.h"

#include <gtest/gtest.h>

namespace outsize::trace {
namespace {

constexpr SiteId kSite = 0xfedcba98fff76543ULL;  // the bits of the class are all set

Event at(Event::Kind kind, SiteId site, std::string_view text = {}) {
  Event event;
  event.kind = kind;
  event.site = site;
  event.text = text;
  return event;
}

TEST(OldSites, GetTheClassThatTheirNameSays) {
  OldSites sites;
  Event name = at(Event::Kind::kSiteName, kSite, "aten::mm [8x8], [8x8] (backward)");
  sites.renew(name);
  const SiteId now = with_idiom_class(kSite, idiom_class_named("aten::mm"));
  EXPECT_EQ(name.site, now);
  for (const auto kind : {Event::Kind::kOpBegin, Event::Kind::kUntracked}) {
    Event event = at(kind, kSite);
    sites.renew(event);
    EXPECT_EQ(event.site, now);
  }
  EXPECT_EQ(kind_of(now), kind_of(kSite)) << "what names of ops are made of stays";
}

TEST(OldSites, WhatHasNoNameHasNoClass) {
  OldSites sites;
  Event event = at(Event::Kind::kOpBegin, kSite);
  sites.renew(event);
  EXPECT_EQ(event.site, with_idiom_class(kSite, kNoIdiomClass));
  event = at(Event::Kind::kStep, 0);
  sites.renew(event);
  EXPECT_EQ(event.site, 0U);
}

}  // namespace
}  // namespace outsize::trace
