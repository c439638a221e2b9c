#include "predictors/pilot/model.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/trace/trace_codec.h"
#include "predictors/pilot/pilot.h"

namespace outsize::pilot {

void ModelWriter::number(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void ModelWriter::real(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>(bits >> (8 * i));
}

Error ModelReader::error() const {
  return {ErrorCode::kInvalidArgument, std::string("the pilot's model is damaged: ") + (ok() ? "" : wrong_),
          "byte " + std::to_string(at_) + " of the model", "Copy it again, or train it again."};
}

std::uint64_t ModelReader::number(std::uint64_t most, const char* what) {
  std::uint64_t value = 0;
  for (int shift = 0; ok(); shift += 7) {
    if (at_ == bytes_.size()) {
      refuse("it ends too early");
      break;
    }
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    if (shift == 63 && byte > 1) refuse(what);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0 || shift == 63) break;
  }
  if (ok() && value > most) refuse(what);
  return ok() ? value : 0;
}

std::uint32_t ModelReader::id(std::size_t below, const char* what) {
  if (below == 0) refuse(what);
  return static_cast<std::uint32_t>(number(below == 0 ? 0 : below - 1, what));
}

std::size_t ModelReader::count(std::size_t most, const char* what) {
  const auto rows = static_cast<std::size_t>(number(most, what));
  if (rows > bytes_.size() - at_) refuse("it ends too early");
  return ok() ? rows : 0;
}

float ModelReader::real(float least, float most, const char* what) {
  if (ok() && bytes_.size() - at_ < 4) refuse("it ends too early");
  if (!ok()) return least;
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes_[at_++])) << (8 * i);
  const auto value = std::bit_cast<float>(bits);
  if (!(value >= least && value <= most)) refuse(what);  // nor is it a number, else
  return ok() ? value : least;
}

// --- names of features --------------------------------------------------------------------------

void Sample::save(ModelWriter& out) const {
  std::vector<std::uint64_t> names(rows_.size());
  for (const auto& [name, row] : rows_) names[row] = name;
  out.number(names.size());
  for (const std::uint64_t name : names) out.number(name);
}

void Sample::load(ModelReader& in) {
  const std::size_t rows = in.count(kRowsMax, "too many features");
  for (std::size_t row = 0; row < rows && in.ok(); ++row) {
    if (!rows_.emplace(in.any(), row).second) in.refuse("a feature stands there twice");
  }
}

// --- all of it ----------------------------------------------------------------------------------

namespace {

Status check_versions(ModelReader& in) {
  const std::uint64_t version = in.any(), names = in.any();
  if (!in.ok()) return in.error();
  if (version == kModelVersion && names == trace::kFormatVersion) return {};
  return Error{ErrorCode::kUnsupported,
               "the pilot's model has version " + std::to_string(version) + "." + std::to_string(names) +
                   ", and this outsize reads " + std::to_string(kModelVersion) + "." +
                   std::to_string(trace::kFormatVersion),
               "", "Train it again with this outsize."};
}

constexpr Nanos kWeighedMax = Nanos{1} << 60;

void save(ModelWriter& out, const BaseTypeScale& base) {
  for (std::size_t i = 0; i < kBaseTypes; ++i) {
    out.number(static_cast<std::uint64_t>(std::min(base.time(static_cast<BaseType>(i)), kWeighedMax)));
  }
}

BaseTypeScale load_base(ModelReader& in) {
  BaseTypeScale base;
  for (std::size_t i = 0; i < kBaseTypes; ++i) {
    const std::uint64_t time = in.number(static_cast<std::uint64_t>(kWeighedMax), "ops of a kind take too long");
    base.weigh(static_cast<BaseType>(i), static_cast<Nanos>(time));
  }
  return base;
}

}  // namespace

std::string PilotPredictor::learnt() const {
  ModelWriter out;
  out.number(kModelVersion);
  out.number(trace::kFormatVersion);
  out.number(plan_ops_);
  save(out, base_);
  sample_.save(out);
  network_.save(out);
  chooser_.save(out, network_.nodes());
  return out.take();
}

Status PilotPredictor::begin_with(std::string_view model) {
  ModelReader in(model);
  if (Status status = check_versions(in); !status) return status;
  const auto plan_ops = static_cast<std::uint32_t>(in.number(1U << 17, "a plan of too many ops"));
  BaseTypeScale base = load_base(in);
  Sample sample;
  Network network;
  Chooser chooser(options_.chooser);
  sample.load(in);
  network.load(in);
  chooser.load(in, network);
  if (in.ok() && !in.at_end()) in.refuse("something follows its end");
  if (!in.ok()) return in.error();
  base_ = base;
  sample_ = std::move(sample);
  network_ = std::move(network);
  chooser_ = std::move(chooser);
  plan_ops_ = std::clamp(plan_ops, kPlanOpsMin, options_.plan_ops_max);
  step_node_ = running_ = network_.node(kStepEnds, false);
  model_nodes_ = static_cast<NodeId>(network_.nodes());
  base_type_ = base_.type();
  judging_ = options_.judge;
  from_start_ = true;
  if (judging_) watch_without_names();
  return {};
}

Result<ModelFacts> model_facts(std::string_view model) {
  const ExtentTable none;
  PilotPredictor predictor(none, {});
  if (Status status = predictor.begin_with(model); !status) return status.error();
  return predictor.facts();
}

}  // namespace outsize::pilot
