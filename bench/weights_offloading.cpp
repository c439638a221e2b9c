// How good are the weight offloading solvers (planners/weights)? Random chains by seed: the quickest
// schedule by exhaustive search against single, greedy and greedy*; and memory -> time curves.
//
//   weights_offloading [--chains 200] [--seed 1] [--layers-min 3] [--layers-max 8]
//                      [--states 8000000] [--json FILE] [--curves FILE.csv]
//
// Every schedule is replayed by the judge; a claim that differs from the replay, a schedule below the
// bound or below the exhaustive search ends the program with exit code 1. A search that gives up says
// so, and its chain counts nowhere.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "planners/weights/exhaustive.h"
#include "planners/weights/insert.h"
#include "planners/weights/random_chain.h"
#include "planners/weights/replay.h"
#include "planners/weights/solve.h"
#include "sim/random.h"

namespace {

using namespace outsize;
using namespace outsize::weights;

struct Arguments {
  std::int64_t chains = 200, layers_min = 3, layers_max = 8;
  std::uint64_t seed = 1, states = 8'000'000;
  std::string json, curves;
};

constexpr Solver kSolvers[] = {Solver::kSingle, Solver::kGreedy, Solver::kGreedyStar};
constexpr int kCurvePoints = 20;
constexpr Options kOptions[] = {{1, 1, false}, {3, 2, false}, {2, 1, false}, {4, 1, false},
                                {1, 1, true},  {3, 2, true},  {2, 1, true},  {4, 1, true}};

// One chain with one memory. Times; 0: no answer.
struct Instance {
  Chain chain;
  Bytes memory = 0;
  Nanos bound = 0, exact = 0, solver[3] = {0, 0, 0};
  Nanos exact_inserted = 0;  // the exact schedule's choice of weights, with our transfers
  std::uint64_t states = 0;
};

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "weights_offloading: " << what << "\n";
  std::exit(1);
}

// The time, once the judge has agreed to it.
Nanos judged(const Chain& chain, Bytes memory, const Schedule& schedule, const char* whose) {
  auto replayed = replay(chain, memory, schedule);
  if (!replayed) fail(std::string(whose) + ": " + replayed.error().message());
  if (replayed->time != schedule.time || replayed->peak != schedule.peak) {
    fail(std::string(whose) + ": the replay finds another time or peak than claimed");
  }
  return schedule.time;
}

Nanos solved(const Chain& chain, Bytes memory, Solver solver, const Options& options) {
  auto schedule = solve(chain, memory, solver, options);
  if (schedule) return judged(chain, memory, *schedule, name_of(solver));
  if (schedule.error().code != ErrorCode::kOutOfBudget) fail(schedule.error().message());
  return 0;
}

// Which weights a schedule has away when.
std::vector<Away> away_of(const Chain& chain, const Schedule& schedule) {
  const Timeline line(chain);
  std::vector<Away> away(chain.length());
  for (const Transfer& t : schedule.transfers) {
    if (t.move != Move::kDrop) continue;
    const bool between = t.start > schedule.op_start[line.forward_op(t.layer)] &&
                         t.start < schedule.op_start[line.backward_op(t.layer)];
    away[t.layer].in[between ? kForwardToBackward : kBackwardToForward] = true;
  }
  return away;
}

void search(Instance& instance, std::uint64_t states) {
  const Chain& chain = instance.chain;
  ExhaustiveLimits limits;
  limits.states = states;
  for (const Nanos time : instance.solver) {
    if (time > 0) limits.at_most = std::min(limits.at_most, time);
  }
  auto best = exhaustive(chain, instance.memory, limits);
  if (!best) {
    if (best.error().code == ErrorCode::kUnsupported) return;
    fail("the exhaustive search finds nothing as quick as a solver: " + best.error().message());
  }
  instance.exact = judged(chain, instance.memory, best->schedule, "exhaustive");
  instance.states = best->states;
  if (instance.exact < instance.bound) fail("a schedule beats the bound");
  auto inserted = insert_transfers(chain, instance.memory, away_of(chain, best->schedule));
  if (inserted) instance.exact_inserted = judged(chain, instance.memory, *inserted, "insertion");
}

Instance look_at(Chain chain, Bytes memory, std::uint64_t states) {
  Instance instance;
  instance.chain = std::move(chain);
  instance.memory = memory;
  auto bound = lower_bound(instance.chain, memory);
  if (!bound) fail(bound.error().message());
  instance.bound = *bound;
  for (const Solver s : kSolvers) {
    Nanos& time = instance.solver[static_cast<int>(s)];
    time = solved(instance.chain, memory, s, {});
    if (time > 0 && time < instance.bound) fail("a schedule beats the bound");
  }
  if (instance.chain.length() <= kExhaustiveLayersMax && states > 0) search(instance, states);
  return instance;
}

// --- distributions -------------------------------------------------------------------------------

struct Spread {
  std::size_t count = 0, as_good = 0;
  double median = 0, ninety = 0, worst = 0;
};

// Of ratios that are 1 or more.
Spread spread_of(std::vector<double> ratios) {
  Spread spread;
  spread.count = ratios.size();
  if (ratios.empty()) return spread;
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1) + 0.5)];
  };
  for (const double r : ratios) spread.as_good += r <= 1;
  spread.median = at(0.5);
  spread.ninety = at(0.9);
  spread.worst = ratios.back();
  return spread;
}

double ratio(Nanos a, Nanos b) { return static_cast<double>(a) / static_cast<double>(b); }

struct Row {
  std::string name;
  Spread spread;
};

template <class TimeOf>
Row row(const std::string& name, const std::vector<Instance>& all, TimeOf time_of) {
  std::vector<double> ratios;
  for (const Instance& i : all) {
    const Nanos time = time_of(i);
    if (i.exact > 0 && time > 0) ratios.push_back(ratio(time, i.exact));
  }
  return {name, spread_of(std::move(ratios))};
}

Nanos best_of(const Instance& i) {
  Nanos best = 0;
  for (const Nanos t : i.solver) best = t > 0 && (best == 0 || t < best) ? t : best;
  return best;
}

std::vector<Row> rows_of(const std::vector<Instance>& all) {
  std::vector<Row> rows;
  for (const Solver s : kSolvers) {
    rows.push_back(row(name_of(s), all, [s](const Instance& i) { return i.solver[static_cast<int>(s)]; }));
  }
  rows.push_back(row("best of the three", all, best_of));
  rows.push_back(row("exact choice, inserted", all, [](const Instance& i) { return i.exact_inserted; }));
  std::vector<double> above_bound;
  for (const Instance& i : all) {
    if (i.exact > 0) above_bound.push_back(ratio(i.exact, i.bound));
  }
  rows.push_back({"exact / lower bound", spread_of(std::move(above_bound))});
  return rows;
}

// Greedy* against greedy where both have an answer.
struct Duel {
  std::size_t both = 0, worse = 0, better = 0;
  double worst = 1, best = 1;  // greedy* / greedy
};

Duel duel_of(const std::vector<Instance>& all) {
  Duel duel;
  for (const Instance& i : all) {
    const Nanos greedy = i.solver[1], star = i.solver[2];
    if (greedy == 0 || star == 0) continue;
    ++duel.both;
    duel.worse += star > greedy;
    duel.better += star < greedy;
    duel.worst = std::max(duel.worst, ratio(star, greedy));
    duel.best = std::min(duel.best, ratio(star, greedy));
  }
  return duel;
}

// The mean of greedy's and greedy*'s ratios to exact under other options.
struct Variant {
  Options options;
  double mean[2] = {0, 0};
  std::size_t count[2] = {0, 0};
};

std::vector<Variant> variants_of(const std::vector<Instance>& all) {
  std::vector<Variant> variants;
  for (const Options& options : kOptions) {
    Variant v{options};
    for (const Instance& i : all) {
      for (int k = 0; k < 2 && i.exact > 0; ++k) {
        const Nanos time = solved(i.chain, i.memory, k == 0 ? Solver::kGreedy : Solver::kGreedyStar, options);
        if (time == 0) continue;
        v.mean[k] += ratio(time, i.exact);
        ++v.count[k];
      }
    }
    for (int k = 0; k < 2; ++k) v.mean[k] /= static_cast<double>(std::max<std::size_t>(v.count[k], 1));
    variants.push_back(v);
  }
  return variants;
}

// --- what people and machines read ---------------------------------------------------------------

void print(const Arguments& arguments, const std::vector<Instance>& all) {
  std::size_t exact = 0;
  for (const Instance& i : all) exact += i.exact > 0;
  std::printf("%zu random chains of %lld to %lld layers, seed %llu; exact for %zu, given up for %zu\n\n",
              all.size(), static_cast<long long>(arguments.layers_min),
              static_cast<long long>(arguments.layers_max),
              static_cast<unsigned long long>(arguments.seed), exact, all.size() - exact);
  std::printf("%-24s %8s %10s %8s %8s %8s\n", "time / exact", "answers", "as quick", "median", "90 %", "worst");
  for (const Row& r : rows_of(all)) {
    std::printf("%-24s %8zu %10zu %8.3f %8.3f %8.3f\n", r.name.c_str(), r.spread.count, r.spread.as_good,
                r.spread.median, r.spread.ninety, r.spread.worst);
  }
  const Duel d = duel_of(all);
  std::printf("\ngreedy* against greedy, where both have an answer (%zu): worse in %zu (%.1f %%, up to %.3fx), "
              "better in %zu (down to %.3fx)\n\n",
              d.both, d.worse, 100.0 * static_cast<double>(d.worse) / static_cast<double>(std::max<std::size_t>(d.both, 1)),
              d.worst, d.better, d.best);
  std::printf("%-24s %8s %8s   mean time / exact (answers)\n", "coefficient", "greedy", "greedy*");
  for (const Variant& v : variants_of(all)) {
    std::printf("%lld/%lld%-21s %8.3f %8.3f   (%zu, %zu)\n", static_cast<long long>(v.options.coefficient_num),
                static_cast<long long>(v.options.coefficient_den), v.options.by_time ? ", by time" : "",
                v.mean[0], v.mean[1], v.count[0], v.count[1]);
  }
}

void write_json(const Arguments& arguments, const std::vector<Instance>& all) {
  std::ofstream out(arguments.json);
  out << "{\"seed\": " << arguments.seed << ", \"layers\": [" << arguments.layers_min << ", "
      << arguments.layers_max << "],\n \"time_over_exact\": {";
  const char* comma = "";
  for (const Row& r : rows_of(all)) {
    out << comma << "\n  \"" << r.name << "\": {\"answers\": " << r.spread.count << ", \"as_quick\": "
        << r.spread.as_good << ", \"median\": " << r.spread.median << ", \"p90\": " << r.spread.ninety
        << ", \"worst\": " << r.spread.worst << "}";
    comma = ",";
  }
  const Duel d = duel_of(all);
  out << "},\n \"star_against_greedy\": {\"both\": " << d.both << ", \"worse\": " << d.worse << ", \"better\": "
      << d.better << ", \"worst_ratio\": " << d.worst << ", \"best_ratio\": " << d.best << "},\n \"instances\": [";
  comma = "";
  for (const Instance& i : all) {  // 0: no answer
    out << comma << "\n  {\"layers\": " << i.chain.length() << ", \"memory\": " << i.memory << ", \"bound\": "
        << i.bound << ", \"exact\": " << i.exact << ", \"single\": " << i.solver[0] << ", \"greedy\": "
        << i.solver[1] << ", \"greedy_star\": " << i.solver[2] << ", \"exact_choice_inserted\": "
        << i.exact_inserted << ", \"states\": " << i.states << "}";
    comma = ",";
  }
  out << "]}\n";
  if (!out.flush()) fail("cannot write " + arguments.json);
}

// 48 equal linear layers, as in examples/mlp_stream.py, with the times and the disk of README.md:
// 3.9 s a step, a third of it forward; 1300 MB/s up, 2000 MB/s down.
Chain mlp_stream() {
  Chain chain;
  const Bytes weight = 2048LL * 2048 * 4, activation = 512LL * 2048 * 4;
  chain.layers.assign(48, {weight, 27'000'000, 54'000'000, activation, activation, weight + activation});
  chain.up.bytes_per_us = 1300;
  chain.down.bytes_per_us = 2000;
  return chain;
}

void write_curves(const Arguments& arguments) {
  std::ofstream out(arguments.curves);
  out << "chain,layers,memory_bytes,bound,exact,single,greedy,greedy_star\n";
  const auto curve = [&](const std::string& name, const Chain& chain, std::uint64_t states) {
    const MemoryRange range = memory_range(chain);
    for (int point = 0; point <= kCurvePoints; ++point) {
      const Bytes memory = range.least + (range.all - range.least) * point / kCurvePoints;
      const Instance i = look_at(chain, memory, states);
      out << name << "," << chain.length() << "," << memory << "," << i.bound;
      for (const Nanos t : {i.exact, i.solver[0], i.solver[1], i.solver[2]}) {
        out << "," << (t > 0 ? std::to_string(t) : "");
      }
      out << "\n";
    }
  };
  curve("mlp_stream", mlp_stream(), 0);
  sim::Random random(arguments.seed);
  for (int n = 0; n < 4; ++n) {
    ChainShape shape;
    shape.layers_min = shape.layers_max = n < 3 ? 6 : 40;
    curve("random" + std::to_string(n), random_chain(random, shape), n < 3 ? arguments.states : 0);
  }
  if (!out.flush()) fail("cannot write " + arguments.curves);
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string name = words[i];
    if (i + 1 == count) fail(name + " needs a value");
    const char* value = words[++i];
    if (name == "--chains") arguments.chains = std::atoll(value);
    else if (name == "--seed") arguments.seed = std::strtoull(value, nullptr, 10);
    else if (name == "--layers-min") arguments.layers_min = std::atoll(value);
    else if (name == "--layers-max") arguments.layers_max = std::atoll(value);
    else if (name == "--states") arguments.states = std::strtoull(value, nullptr, 10);
    else if (name == "--json") arguments.json = value;
    else if (name == "--curves") arguments.curves = value;
    else fail("no such option: " + name);
  }
  if (arguments.layers_min < 1 || arguments.layers_max < arguments.layers_min ||
      arguments.layers_max > static_cast<std::int64_t>(kExhaustiveLayersMax)) {
    fail("layers: between 1 and " + std::to_string(kExhaustiveLayersMax));
  }
  return arguments;
}

}  // namespace

int main(int count, char** words) {
  const Arguments arguments = parse(count, words);
  sim::Random random(arguments.seed);
  ChainShape shape;
  shape.layers_min = arguments.layers_min;
  shape.layers_max = arguments.layers_max;
  std::vector<Instance> all;
  for (std::int64_t n = 0; n < arguments.chains; ++n) {
    Chain chain = random_chain(random, shape);
    const Bytes memory = random_memory(random, chain);
    all.push_back(look_at(std::move(chain), memory, arguments.states));
    std::cerr << "\rchain " << n + 1 << " of " << arguments.chains << std::flush;
  }
  std::cerr << "\n";
  print(arguments, all);
  if (!arguments.json.empty()) write_json(arguments, all);
  if (!arguments.curves.empty()) write_curves(arguments);
  return 0;
}
