// A child-sum Tree-LSTM over the bracket structure of C++ source text (its own), one cell with its own
// weights per kind of node. The path through the network is the tree: every statement calls other
// cells in another order.
//
//   tree_lstm --budget 40 --steps 5            (--budget 0: plain libtorch)
//
// The network sees a statement and guesses a class made from its first word.

#include "common.h"

#include <cctype>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

namespace {

constexpr std::int64_t kHidden = 192, kWords = 1024, kClasses = 16;
constexpr int kWordKinds = 24, kKinds = kWordKinds + 12;  // words by hash; brackets and other signs
constexpr std::size_t kBatch = 4, kNodesMin = 6, kNodesMax = 60;

struct Node {
  int kind = 0;
  std::int64_t word = 0;
  std::vector<std::size_t> children;  // before it in the tree
};
struct Tree {
  std::vector<Node> nodes;  // children first, the root last
  std::int64_t label = 0;
};

std::uint32_t hash(const std::string& text) {
  std::uint32_t value = 2166136261U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619U;
  return value;
}

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

Node node_of(const std::string& token) {
  const std::uint32_t value = hash(token);
  const bool word = in_word(token[0]);
  const int kind = word ? static_cast<int>(value % kWordKinds)
                        : kWordKinds + static_cast<int>(value % (kKinds - kWordKinds));
  return {kind, static_cast<std::int64_t>(value % kWords), {}};
}

// One tree a statement: what stands between brackets hangs below the bracket, and the words and signs
// of the statement below its end.
std::vector<Tree> parse_statements(const std::string& text) {
  std::vector<Tree> trees;
  Tree tree;
  std::vector<std::vector<std::size_t>> open(1);  // nodes that wait for their parent
  std::string first;
  for (std::size_t at = 0; at < text.size();) {
    std::string token(1, text[at++]);
    if (std::isspace(static_cast<unsigned char>(token[0])) != 0) continue;
    while (in_word(token[0]) && at < text.size() && in_word(text[at])) token += text[at++];
    if (first.empty() && in_word(token[0])) first = token;
    if (token == "(" || token == "[") {
      open.emplace_back();
      continue;
    }
    Node node = node_of(token);
    const bool closes = token == ")" || token == "]";
    const bool ends = token == ";" || token == "{" || token == "}";
    if (closes || ends) node.children = open.back();
    if (closes && open.size() > 1) open.pop_back();
    else if (closes || ends) open.back().clear();
    open.back().push_back(tree.nodes.size());
    tree.nodes.push_back(std::move(node));
    if (!ends || open.size() > 1) continue;
    tree.label = hash(first) % kClasses;
    if (tree.nodes.size() >= kNodesMin && tree.nodes.size() <= kNodesMax) trees.push_back(tree);
    tree = Tree{};
    open.assign(1, {});
    first.clear();
  }
  return trees;
}

std::vector<Tree> load_trees() {
  std::ifstream file(__FILE__);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto trees = parse_statements(text);
  TORCH_CHECK(!trees.empty(), "cannot read ", __FILE__, ", the text to learn");
  return trees;
}

struct State {
  torch::Tensor h, c;
};

struct CellImpl : torch::nn::Module {
  CellImpl()
      : gates_x(register_module("gates_x", torch::nn::Linear(kHidden, 4 * kHidden))),
        gates_h(register_module("gates_h", torch::nn::Linear(
            torch::nn::LinearOptions(kHidden, 3 * kHidden).bias(false)))),
        forget_h(register_module("forget_h", torch::nn::Linear(
            torch::nn::LinearOptions(kHidden, kHidden).bias(false)))) {}

  State forward(const torch::Tensor& word, const std::vector<State>& children) {
    const auto gates = gates_x(word);
    auto iou = gates.slice(0, 0, 3 * kHidden);
    torch::Tensor kept;
    if (!children.empty()) {
      std::vector<torch::Tensor> hs, cs;
      for (const State& child : children) hs.push_back(child.h), cs.push_back(child.c);
      const auto h = torch::stack(hs);
      iou = iou + gates_h(h.sum(0));
      kept = torch::sigmoid(gates.slice(0, 3 * kHidden) + forget_h(h)) * torch::stack(cs);
    }
    const auto parts = iou.chunk(3);
    auto c = torch::sigmoid(parts[0]) * torch::tanh(parts[2]);
    if (kept.defined()) c = c + kept.sum(0);
    return {torch::sigmoid(parts[1]) * torch::tanh(c), c};
  }

  torch::nn::Linear gates_x, gates_h, forget_h;
};
TORCH_MODULE(Cell);

struct TreeLstmImpl : torch::nn::Module {
  TreeLstmImpl()
      : words(register_module("words", torch::nn::Embedding(kWords, kHidden))),
        cells(register_module("cells", torch::nn::ModuleList())),
        head(register_module("head", torch::nn::Linear(kHidden, kClasses))) {
    for (int kind = 0; kind < kKinds; ++kind) cells->push_back(Cell());
  }

  torch::Tensor forward(const Tree& tree) {
    std::vector<std::int64_t> indices;
    for (const Node& node : tree.nodes) indices.push_back(node.word);
    const auto embedded = words(torch::tensor(indices, torch::kLong));
    std::vector<State> states;
    for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
      std::vector<State> children;
      for (const std::size_t child : tree.nodes[i].children) children.push_back(states[child]);
      auto& cell = cells->at<CellImpl>(static_cast<std::size_t>(tree.nodes[i].kind));
      states.push_back(cell.forward(embedded[static_cast<std::int64_t>(i)], children));
    }
    return head(states.back().h);
  }

  torch::nn::Embedding words;
  torch::nn::ModuleList cells;
  torch::nn::Linear head;
};
TORCH_MODULE(TreeLstm);

void train(const examples::Settings& settings, outsize::Session* session) {
  torch::manual_seed(1);
  const std::vector<Tree> trees = load_trees();
  TreeLstm model;
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  std::mt19937_64 picker(1);
  for (int step = 0; step < settings.steps; ++step) {
    optimizer.zero_grad();
    std::vector<torch::Tensor> scores;
    std::vector<std::int64_t> labels;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const Tree& tree = trees[picker() % trees.size()];
      scores.push_back(model(tree));
      labels.push_back(tree.label);
    }
    const auto loss = torch::nn::functional::cross_entropy(torch::stack(scores),
                                                           torch::tensor(labels, torch::kLong));
    loss.backward();
    optimizer.step();
    std::printf("step %d loss %.9g\n", step, loss.item<double>());
    if (session != nullptr) session->step();
  }
}

}  // namespace

int main(int argc, char** argv) { return examples::run(argc, argv, train); }
