// What a sample says (Predictor::on_sample), as choices are asked about it: sequences and single numbers. And what the
// one before it said: where a network is called several times a step, on real and on made pictures, the path may hang on
// an earlier one.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "predictors/pilot/mix.h"

namespace outsize::pilot {

class ModelReader;  // model.h
class ModelWriter;

struct Feature {
  std::uint64_t name = 0;
  std::span<const std::int64_t> values;
};

class Sample {
 public:
  static constexpr std::size_t kFeaturesMax = 64;
  static constexpr std::size_t kRowsMax = 128;
  static constexpr std::int64_t kBeyond = INT64_MIN;  // the value behind a sequence's end

  static constexpr std::size_t kFeaturesBefore = 16;  // of the sample before
  static constexpr std::size_t kLong = 16;            // a sequence's values

  // What is cut short is left out.
  void read(std::span<const std::int64_t> encoded) {
    std::swap(values_, values_before_);
    std::swap(features_, before_);
    values_.assign(encoded.begin(), encoded.end());
    features_.clear();
    row_.assign(rows_.size(), {});
    long_one_ = kNone;
    std::size_t at = 0;
    while (at + 2 <= values_.size() && features_.size() < kFeaturesMax) {
      const std::int64_t count = values_[at + 1];
      if (count < 0 || static_cast<std::size_t>(count) > values_.size() - at - 2) break;
      const auto size = static_cast<std::size_t>(count);
      features_.push_back({static_cast<std::uint64_t>(values_[at]), std::span(values_).subspan(at + 2, size)});
      if (long_one_ == kNone && size >= kLong) long_one_ = static_cast<std::uint32_t>(features_.size() - 1);
      at += 2 + size;
    }
    for (const Feature& feature : features_) add(feature);
    if (before_.size() > kFeaturesBefore) before_.resize(kFeaturesBefore);
    for (Feature& feature : before_) {
      feature.name = mix(feature.name, kBefore);
      add(feature);
    }
  }
  std::span<const Feature> features() const { return features_; }

  // Features of one name have one row in all samples, whatever else these say. Null where this one has none.
  std::size_t rows() const { return rows_.size(); }
  const Feature* row(std::size_t row) const { return row < row_.size() && row_[row].name != 0 ? &row_[row] : nullptr; }
  // The first sequence that is long. Null where none is.
  const Feature* long_one() const { return long_one_ == kNone ? nullptr : &features_[long_one_]; }
  // The rows' names, as part of a saved model.
  void save(ModelWriter& out) const;
  void load(ModelReader& in);

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  static constexpr std::uint64_t kBefore = 0xbef0;
  void add(const Feature& feature) {
    auto at = rows_.find(feature.name);
    if (at == rows_.end()) {
      if (rows_.size() >= kRowsMax) return;
      at = rows_.emplace(feature.name, rows_.size()).first;
      row_.push_back({});
    }
    row_[at->second] = feature;
  }

  std::vector<std::int64_t> values_, values_before_;
  std::vector<Feature> features_, before_;
  std::unordered_map<std::uint64_t, std::size_t> rows_;  // by name
  std::vector<Feature> row_;                             // by row; of no name where this sample has none
  std::uint32_t long_one_ = kNone;
};

inline std::int64_t value_at(const Feature& feature, std::uint64_t index) {
  return index < feature.values.size() ? feature.values[index] : Sample::kBeyond;
}

}  // namespace outsize::pilot
