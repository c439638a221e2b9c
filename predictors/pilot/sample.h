// What a sample says (Predictor::on_sample), as choices are asked about it: sequences and single numbers.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

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

  // What is cut short is left out.
  void read(std::span<const std::int64_t> encoded) {
    values_.assign(encoded.begin(), encoded.end());
    features_.clear();
    row_.assign(rows_.size(), kNone);
    std::size_t at = 0;
    while (at + 2 <= values_.size() && features_.size() < kFeaturesMax) {
      const std::int64_t count = values_[at + 1];
      if (count < 0 || static_cast<std::size_t>(count) > values_.size() - at - 2) return;
      const auto size = static_cast<std::size_t>(count);
      add({static_cast<std::uint64_t>(values_[at]), std::span(values_).subspan(at + 2, size)});
      at += 2 + size;
    }
  }
  std::span<const Feature> features() const { return features_; }

  // Features of one name have one row in all samples, whatever else these say. Null where this one has none.
  std::size_t rows() const { return rows_.size(); }
  const Feature* row(std::size_t row) const {
    return row < row_.size() && row_[row] != kNone ? &features_[row_[row]] : nullptr;
  }
  // The rows' names, as part of a saved model.
  void save(ModelWriter& out) const;
  void load(ModelReader& in);

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  void add(const Feature& feature) {
    features_.push_back(feature);
    auto at = rows_.find(feature.name);
    if (at == rows_.end()) {
      if (rows_.size() >= kRowsMax) return;
      at = rows_.emplace(feature.name, rows_.size()).first;
      row_.push_back(kNone);
    }
    row_[at->second] = static_cast<std::uint32_t>(features_.size() - 1);
  }

  std::vector<std::int64_t> values_;
  std::vector<Feature> features_;
  std::unordered_map<std::uint64_t, std::size_t> rows_;  // by name
  std::vector<std::uint32_t> row_;                       // by row: in features_
};

inline std::int64_t value_at(const Feature& feature, std::uint64_t index) {
  return index < feature.values.size() ? feature.values[index] : Sample::kBeyond;
}

}  // namespace outsize::pilot
