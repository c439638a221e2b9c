#include "predictors/pilot/block_graph.h"

#include <algorithm>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

// Tokens written as letters; each takes a microsecond and works on nothing.
std::vector<TokenUse> path(const std::string& letters) {
  std::vector<TokenUse> uses;
  for (const char letter : letters) uses.push_back({static_cast<Token>(letter), 1000, {}});
  return uses;
}

// Blocks as text: "ab>cd,ef" is block ab, after which cd or ef come.
std::vector<std::string> said(const BlockGraph& graph, const BlockLimits& limits = {}) {
  const std::vector<Block> blocks = graph.blocks(limits);
  std::vector<std::string> all;
  for (const Block& block : blocks) {
    std::string text;
    for (const Token token : block.tokens) text += static_cast<char>(token);
    for (const BlockEdge& edge : block.next) {
      text += text.find('>') == std::string::npos ? '>' : ',';
      text += static_cast<char>(blocks[edge.block].tokens[0]);
    }
    all.push_back(text);
  }
  return all;
}

TEST(BlockGraph, AStaticNetworkIsOneBlock) {
  BlockGraph graph;
  for (int i = 0; i < 3; ++i) graph.step(path("abcdef"));
  EXPECT_EQ(said(graph), std::vector<std::string>{"abcdef"});
  EXPECT_EQ(graph.decisions(), 0U);
  EXPECT_EQ(graph.blocks({})[0].time, 6000);
}

TEST(BlockGraph, ABlocksIdiomsAreThoseOfItsOps) {
  BlockGraph graph;
  std::vector<TokenUse> uses = path("abc");
  uses[0].idiom = idiom_class_named("aten::mm");       // 0 0 0 1 2 0
  uses[1].idiom = idiom_class_named("aten::_softmax"); // 0 0 0 2 1 0
  graph.step(uses);
  graph.step(path("x"));
  EXPECT_EQ(graph.blocks({})[0].idioms, (std::array<std::uint32_t, kIdioms>{0, 0, 0, 3, 3, 0})) << "c's are not known";
  EXPECT_EQ(graph.blocks({})[1].idioms, (std::array<std::uint32_t, kIdioms>{}));
  EXPECT_EQ(graph.base_type(), BaseType::kPlain);
  uses[2].idiom = idiom_class_named("aten::lstm");
  graph.step(uses);
  EXPECT_EQ(graph.base_type(), BaseType::kRecurrent);
}

TEST(BlockGraph, ItIsCutWherePathsPartAndWhereTheyMeet) {
  BlockGraph graph;
  graph.step(path("abXYcd"));
  graph.step(path("abZcd"));
  graph.step(path("abZcd"));
  EXPECT_EQ(said(graph), (std::vector<std::string>{"ab>Z,X", "XY>c", "cd", "Z>c"})) << "the frequent way first";
  EXPECT_EQ(graph.decisions(), 1U);
  EXPECT_EQ(graph.steps(), 3U);
}

TEST(BlockGraph, LoopsAndEarlyEndsAreCut) {
  BlockGraph graph;
  graph.step(path("aLMLMLMz"));
  graph.step(path("aLMz"));
  EXPECT_EQ(said(graph), (std::vector<std::string>{"a>L", "LM>L,z", "z"}));
  BlockGraph other;
  other.step(path("abcd"));
  other.step(path("ab"));  // its ops were not certain
  EXPECT_EQ(said(other), (std::vector<std::string>{"ab>c", "cd"}));
}

TEST(BlockGraph, WhereAStepBeginsABlockBegins) {
  BlockGraph graph;
  graph.step(path("abcd"));
  graph.step(path("cd"));
  EXPECT_EQ(said(graph), (std::vector<std::string>{"ab>c", "cd"}));
  graph.step({});
  EXPECT_EQ(graph.steps(), 2U) << "nothing is no step";
}

TEST(BlockGraph, LongRunsAreCutByBytesAndByTime) {
  std::vector<Lasting> weights;
  for (Role i = 1; i <= 6; ++i) weights.push_back({i, 100});
  std::vector<TokenUse> uses;
  for (std::size_t i = 0; i < 6; ++i) {
    uses.push_back({'a' + 2 * i, 1000, std::span(weights).subspan(i, 1)});
    uses.push_back({'b' + 2 * i, 1000, std::span(weights).subspan(i, 1)});  // again: no more bytes
  }
  BlockGraph graph;
  graph.step(uses);
  EXPECT_EQ(said(graph), std::vector<std::string>{"abcdefghijkl"});
  EXPECT_EQ(graph.blocks({})[0].bytes, 600);
  EXPECT_EQ(graph.blocks({})[0].lasting.size(), 6U);
  EXPECT_EQ(said(graph, {.bytes = 200}), (std::vector<std::string>{"abcd>e", "efgh>i", "ijkl"}));
  EXPECT_EQ(said(graph, {.bytes = 50}).size(), 6U) << "what alone is too large is alone";
  const std::uint64_t rate = 50'000'000;  // 100 bytes in 2000 ns: as long as two ops compute
  EXPECT_EQ(said(graph, {.rate = rate}), (std::vector<std::string>{"ab>c", "cd>e", "ef>g", "gh>i", "ij>k", "kl"}));
  EXPECT_EQ(said(graph, {.rate = rate / 2}).size(), 1U) << "the link is the wall: no cut hides what comes";
}

// Whatever the steps were: every op is in one block, a block's ops came together and in order whenever its first came,
// and what came after its last is among what is said to come.
TEST(BlockGraph, BlocksSayWhatHappened) {
  constexpr unsigned kSeed = 20261123;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    BlockGraph graph;
    std::vector<std::string> steps;
    for (int s = 0; s < 5; ++s) {
      std::string letters;
      for (auto left = random() % 30 + 1; left > 0; --left) letters += static_cast<char>('a' + random() % (2 + round % 12));
      steps.push_back(letters);
      graph.step(path(letters));
    }
    const std::vector<Block> blocks = graph.blocks({});
    std::unordered_map<Token, std::uint32_t> begins;
    std::size_t tokens = 0;
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      begins[blocks[i].tokens[0]] = i;
      tokens += blocks[i].tokens.size();
    }
    EXPECT_EQ(tokens, graph.tokens());
    for (const std::string& step : steps) {
      for (std::size_t at = 0; at < step.size();) {
        const auto begun = begins.find(static_cast<Token>(step[at]));
        ASSERT_NE(begun, begins.end()) << "seed " << kSeed << ", round " << round << ", step " << step;
        const Block& block = blocks[begun->second];
        for (const Token token : block.tokens) {
          ASSERT_LT(at, step.size()) << "seed " << kSeed << ", round " << round << ", step " << step;
          ASSERT_EQ(token, static_cast<Token>(step[at++])) << "seed " << kSeed << ", round " << round;
        }
        if (at == step.size()) break;
        const auto comes = std::any_of(block.next.begin(), block.next.end(), [&](const BlockEdge& edge) {
          return blocks[edge.block].tokens[0] == static_cast<Token>(step[at]);
        });
        EXPECT_TRUE(comes) << "seed " << kSeed << ", round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace outsize::pilot
