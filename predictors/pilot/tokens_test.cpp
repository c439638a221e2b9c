#include "predictors/pilot/tokens.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace outsize::pilot {
namespace {

constexpr std::uint64_t kMake = 1, kMatmul = 2, kGelu = 3, kGrad = 4, kClone = 5, kAdd = 6, kZerosLike = 7;
constexpr Bytes kBytes = 1 << 20;

// Two linear layers (weights 0 and 1 of some numbering of extents), and a gradient each with momentum.
class Net {
 public:
  explicit Net(ExtentId first) : first_(first) {
    for (ExtentId i = 0; i < 2; ++i) {
      op(kMake, {});
      tokens.on_birth(weight(i), kBytes);
    }
    tokens.on_step();
  }
  ExtentId weight(ExtentId i) const { return first_ + 3 * i; }
  Token op(std::uint64_t kind, std::vector<ExtentId> extents) { return tokens.on_op(kind, extents); }
  // One expert's step: forward, gradient, momentum (born in its first step), update. Returns the tokens.
  std::vector<Token> step(std::vector<ExtentId> order) {
    std::vector<Token> path;
    for (const ExtentId i : order) {
      path.push_back(op(kMatmul, {weight(i)}));
      path.push_back(op(kGelu, {}));
    }
    for (const ExtentId i : order) {
      const ExtentId grad = first_ + 100 + i, momentum = first_ + 200 + i;
      path.push_back(op(kGrad, {}));
      tokens.on_birth(grad, kBytes);
      if (tokens.role(momentum) == kNoRole) {
        op(kClone, {grad});
        tokens.on_birth(momentum, kBytes);
      }
      path.push_back(op(kAdd, {weight(i), momentum}));
      tokens.on_death(grad);
    }
    tokens.on_step();
    return path;
  }
  Tokens tokens;

 private:
  ExtentId first_;
};

TEST(PilotTokens, ExpertsThatShareCodeAreToldApart) {
  Net net(0);
  net.step({0, 1});
  const std::vector<Token> path = net.step({0, 1});
  EXPECT_NE(path[0], path[2]) << "the same op on another weight";
  EXPECT_NE(path[1], path[3]) << "and what follows it";
  EXPECT_EQ(net.step({0, 1}), path) << "a step like that one";
  const std::vector<Token> other = net.step({1, 0});
  EXPECT_EQ(other[0], path[2]);
  EXPECT_EQ(other[1], path[3]);
  EXPECT_EQ(other[2], path[0]);
}

TEST(PilotTokens, TokensAreTheSameInAnotherRun) {
  Net one(0), other(1000);
  one.step({0, 1});
  other.step({1, 0});  // momentum is born in another order
  EXPECT_EQ(one.step({0, 1}), other.step({0, 1}));
  for (ExtentId i = 0; i < 2; ++i) {
    const Role role = one.tokens.role(one.weight(i));
    EXPECT_NE(role, kNoRole);
    EXPECT_EQ(other.tokens.holder(role), other.weight(i));
  }
}

TEST(PilotTokens, StateThatIsBornOfAWeightIsCalledAfterIt) {
  const auto roles = [](bool turned) {
    Tokens tokens;
    for (ExtentId id = 0; id < 2; ++id) {
      tokens.on_op(kMake, {});
      tokens.on_birth(id, kBytes);
    }
    tokens.on_step();
    for (ExtentId i = 0; i < 2; ++i) {
      const ExtentId weight = turned ? 1 - i : i;
      const ExtentId operand[] = {weight};
      tokens.on_op(kZerosLike, operand);
      tokens.on_birth(10 + weight, kBytes);
    }
    tokens.on_step();
    return std::pair(tokens.role(10), tokens.role(11));
  };
  EXPECT_EQ(roles(false), roles(true));
  EXPECT_NE(roles(false).first, roles(false).second);
}

TEST(PilotTokens, WhatTakesADeadOnesPlaceTakesItsRole) {
  Tokens tokens;
  const auto bear = [&](ExtentId id) {
    tokens.on_op(kMake, {});
    tokens.on_birth(id, kBytes);
    tokens.on_step();
    return tokens.role(id);
  };
  const Role first = bear(1), second = bear(2);
  EXPECT_NE(first, second);
  tokens.on_death(1);
  EXPECT_EQ(tokens.holder(first), kNoExtent);
  EXPECT_EQ(bear(3), first);
  EXPECT_EQ(tokens.holder(first), 3U);
  EXPECT_NE(bear(4), second);
}

TEST(PilotTokens, StateThatIsReplacedKeepsItsRole) {
  Tokens tokens;
  for (ExtentId id = 0; id < 2; ++id) {
    tokens.on_op(kMake, {});
    tokens.on_birth(id, kBytes);
  }
  tokens.on_step();
  const Role first = tokens.role(0), second = tokens.role(1);
  ExtentId now[] = {0, 1};
  for (ExtentId step = 1; step <= 5; ++step) {
    for (ExtentId i = 0; i < 2; ++i) {  // h = f(h)
      tokens.on_op(kAdd, std::span(now).subspan(i, 1));
      tokens.on_birth(10 * step + i, kBytes);
    }
    for (ExtentId i = 0; i < 2; ++i) {
      tokens.on_death(now[i]);
      now[i] = 10 * step + i;
    }
    tokens.on_step();
    EXPECT_EQ(tokens.role(now[0]), first);
    EXPECT_EQ(tokens.role(now[1]), second);
  }
}

// An activation in extent 5 dies, then one weight is born in 7 and another in 5.
TEST(PilotTokens, AnExtentThatWasAnotherBeforeIsBornWhereItIsBorn) {
  const auto roles = [](ExtentId first, ExtentId second) {
    Tokens tokens;
    tokens.on_op(kMatmul, {});
    tokens.on_birth(5, kBytes);
    tokens.on_death(5);
    for (const ExtentId id : {first, second}) {
      tokens.on_op(kMake, {});
      tokens.on_birth(id, kBytes);
    }
    tokens.on_step();
    return std::pair(tokens.role(first), tokens.role(second));
  };
  EXPECT_EQ(roles(7, 5), roles(8, 9));
  EXPECT_NE(roles(7, 5).first, roles(7, 5).second);
}

TEST(PilotTokens, WhereNoStepEndsWhatHasDiedIsForgotten) {
  Tokens tokens;
  for (int i = 0; i < 100'000; ++i) {
    tokens.on_op(kMake, {});
    tokens.on_birth(1, kBytes);
    tokens.on_death(1);
  }
  tokens.on_op(kMake, {});
  tokens.on_birth(2, kBytes);
  tokens.on_birth(2, kBytes);  // its death was missed
  tokens.on_step();
  EXPECT_NE(tokens.role(2), kNoRole);
  EXPECT_EQ(tokens.holder(tokens.role(2)), 2U);
}

TEST(PilotTokens, WhatIsBornAndDiesInAStepHasNone) {
  Tokens tokens;
  tokens.on_op(kMake, {});
  tokens.on_birth(1, kBytes);
  EXPECT_EQ(tokens.role(1), kNoRole);
  tokens.on_death(1);
  tokens.on_step();
  EXPECT_EQ(tokens.role(1), kNoRole);
  EXPECT_EQ(tokens.role(12345), kNoRole) << "never seen";
}

TEST(PilotTokens, WhatWasThereBeforeIsKnownFromItsFirstUse) {
  Tokens tokens;
  const ExtentId operand[] = {7};
  const Token first = tokens.on_op(kMatmul, operand);
  tokens.on_step();
  EXPECT_NE(tokens.role(7), kNoRole);
  const Token then = tokens.on_op(kMatmul, operand);
  EXPECT_NE(then, first);
  tokens.on_step();
  EXPECT_EQ(tokens.on_op(kMatmul, operand), then);
}

// Two experts' activations: ops of one kind that work on nothing that lasts.
TEST(PilotTokens, BackwardIsNamedAfterWhoseTurnItIs) {
  const auto turn_of = [](Token of) {
    Tokens tokens;
    std::vector<Token> path;
    for (const bool begins : {true, false, true}) path.push_back(tokens.on_op(kGrad, {}, true, {of, begins}));
    return path;
  };
  const std::vector<Token> one = turn_of(11), other = turn_of(12);
  EXPECT_EQ(one, turn_of(11));
  EXPECT_NE(one[0], other[0]);
  EXPECT_NE(one[0], one[1]) << "the second op of a turn";
  EXPECT_NE(one[1], other[1]);
  EXPECT_EQ(one[0], one[2]) << "another turn of the same";
  EXPECT_NE(one[0], turn_of(0)[0]) << "nobody knows whose";
}

TEST(PilotTokens, WhatComesAfterABranchIsTheSameButForItsAnchor) {
  const auto after = [](ExtentId expert) {
    Net net(20);
    net.op(kMatmul, {net.weight(expert)});
    EXPECT_EQ(net.tokens.relative(), 0U) << "an anchor";
    const Token token = net.op(kGelu, {});
    return std::pair(token, net.tokens.relative());
  };
  EXPECT_NE(after(0).first, after(1).first);
  EXPECT_EQ(after(0).second, after(1).second);
  EXPECT_NE(after(0).second, 0U);
}

}  // namespace
}  // namespace outsize::pilot
