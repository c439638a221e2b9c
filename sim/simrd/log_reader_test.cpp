#include "sim/simrd/log_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/simrd/json_line.h"
#include "sim/simrd/simulation.h"

namespace outsize::sim::simrd {
namespace {

TEST(JsonLine, ReadsStringsNumbersAndLists) {
  JsonLine json;
  ASSERT_TRUE(
      json.read(R"( {"A": "x\u00e9\n\ud83d\ude00", "N" : -12.5e3,"L":["p", 4 ,"q\"r"],"E":[],)"
                R"("T":true,"O":{"x":[1,{}],"y":null},"A2":"é"} )")
          .ok());
  EXPECT_EQ(json.find("A")->text, "xé\n😀");
  EXPECT_EQ(json.find("N")->text, "-12.5e3");
  EXPECT_EQ(json.find("N")->kind, JsonValue::kNumber);
  EXPECT_EQ(json.find("L")->items, (std::vector<std::string_view>{"p", "4", "q\"r"}));
  EXPECT_TRUE(json.find("E")->items.empty());
  EXPECT_EQ(json.find("T")->kind, JsonValue::kOther);
  EXPECT_EQ(json.find("O")->kind, JsonValue::kOther);
  EXPECT_EQ(json.find("A2")->text, "é");
  EXPECT_EQ(json.find("B"), nullptr);
  ASSERT_TRUE(json.read(R"({"K":1,"K":"2"})").ok());
  EXPECT_EQ(json.find("K")->text, "2");
  EXPECT_EQ(json.find("A"), nullptr);
  ASSERT_TRUE(json.read(R"({"L":[["a"]]})").ok());
  EXPECT_FALSE(json.find("L")->plain_items);
  ASSERT_TRUE(json.read("{}").ok());
}

TEST(JsonLine, RefusesWhatIsNoJson) {
  JsonLine json;
  for (const char* line : {"",
                           "x",
                           "[]",
                           "{",
                           R"({"A"})",
                           R"({"A":})",
                           R"({"A":1,})",
                           R"({"A":1}})",
                           R"({"A":01})",
                           R"({"A":1.})",
                           R"({"A":-})",
                           R"({"A":1e})",
                           R"({"A":"x)",
                           R"({"A":"\x"})",
                           R"({"A":"\u12g4"})",
                           R"({"A":[1,]})",
                           R"({"A":[1)",
                           R"({"A":nul})",
                           R"({A:1})",
                           R"({"A":{"b"}})",
                           "{\"A\":\"\t\"}",
                           R"({"A":1} {"B":2})"}) {
    EXPECT_FALSE(json.read(line).ok()) << line;
  }
  const std::string deep = "{\"A\":" + std::string(100'000, '[');
  EXPECT_FALSE(json.read(deep).ok());
}

// Every beginning of a line is refused, and none is read past its end.
TEST(JsonLine, RefusesEveryBeginning) {
  const std::string whole =
      R"({"ARGS":["x1","x2"],"N":-1.5e+3,"O":{"a":[true]},"S":"\u00e9\"\ud83d\ude00"})";
  JsonLine json;
  ASSERT_TRUE(json.read(whole).ok());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string begun(whole, 0, length);
    EXPECT_FALSE(json.read(begun).ok()) << begun;
  }
}

constexpr const char* kSmall =
    R"({"INSTRUCTION":"CONSTANT","NAME":"old"}
{"ANNOTATION":"START","INSTRUCTION":"ANNOTATE"}
{"INSTRUCTION":"RELEASE","NAME":"old"}
{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","MEMORY":"100","NAME":"w"}
{"ARGS":["w"],"INSTRUCTION":"CALL","NAME":"f","RESULT":["a","v"],"TIME":"7"}
{"INSTRUCTION":"MEMORY","MEMORY":"10","NAME":"a"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"a"}
{"INSTRUCTION":"MEMORY","MEMORY":"55","NAME":"v"}
{"ALIAS":"0","INSTRUCTION":"ALIAS","NAME":"v"}
{"DST":"b","INSTRUCTION":"COPY","SRC":"a"}
{"ANNOTATION":"BACKWARD","INSTRUCTION":"ANNOTATE"}
{"ARGS":["a","w"],"INSTRUCTION":"MUTATE","MUTATE":[0],"NAME":"add_","TIME":3}
{"DST":"b","INSTRUCTION":"COPY_FROM","SRC":"a"}
{"INSTRUCTION":"RELEASE","NAME":"v"}
)";

TEST(SimrdLog, IsReadFromItsStartOn) {
  Result<Program> program = read_log(kSmall, "log");
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(program->storages, (std::vector<Bytes>{100, 10, 10}));
  EXPECT_EQ(program->ops.size(), 3U);
  EXPECT_EQ(program->compute, 10);
  EXPECT_EQ(program->peak, 120);
  const Tensor& view = program->tensors[2];
  EXPECT_TRUE(view.alias);
  EXPECT_EQ(view.storage, 0U);
  EXPECT_EQ(view.bytes, 0);
  std::string kinds;
  for (const Action& action : program->actions) kinds += "CSRK"[action.kind];
  // w; f; b = a; add_, which lets the old a go; b lets it go, too, and gets the new one; v goes;
  // and w, a and b are outputs.
  EXPECT_EQ(kinds, "CKCSCRRSRKKK");
}

TEST(SimrdLog, CountsFromItsFirstLineWhereItHasNoStart) {
  const std::string text = R"({"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","MEMORY":5,"NAME":"w"})";
  Result<Program> program = read_log(text, "log");
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(program->peak, 5);
}

std::string error_of(const std::string& text) {
  const Result<Program> program = read_log(text, "my.log");
  return program.ok() ? "" : program.error().message();
}

// Wherever it is cut within a line or within an op: one sentence that names the line.
TEST(SimrdLog, SaysInWhichLineItIsCut) {
  const std::string text = kSmall;
  std::size_t line = 1, refused = 0;
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at - 1] == '\n') ++line;
    const std::string error = error_of(text.substr(0, at));
    if (text[at] == '\n' || text[at - 1] == '\n') continue;  // whole lines may be a whole log
    ++refused;
    ASSERT_EQ(error.find("line " + std::to_string(line) + " of my.log cannot be read: "), 0U)
        << error << " after " << at;
  }
  EXPECT_GT(refused, 700U);
  const std::string in_call = text.substr(0, text.find(R"({"INSTRUCTION":"MEMORY","MEMORY":"55")"));
  EXPECT_EQ(error_of(in_call),
            "line 8 of my.log cannot be read: the log ends in the middle of an op.");
}

TEST(SimrdLog, SaysWhatIsWrong) {
  auto with = [](const std::string& line) { return error_of(kSmall + line + "\n"); };
  auto expect = [&](const std::string& line, const std::string& what) {
    EXPECT_EQ(with(line), "line 16 of my.log cannot be read: " + what + ".");
  };
  expect("", "it is empty");
  expect(R"({"NAME":"x"})", "it has no INSTRUCTION that is a string");
  expect(R"({"INSTRUCTION":"JUMP"})", "the instruction 'JUMP' is not known");
  expect(R"({"INSTRUCTION":"MEMORY","NAME":"a","MEMORY":1})",
         "a MEMORY stands where no op's results are listed");
  expect(R"({"INSTRUCTION":"COPY","SRC":"no","DST":"c"})", "'no' is used and never defined");
  expect(R"({"INSTRUCTION":"COPY","SRC":"a","DST":"b"})", "'b' is defined twice");
  expect(R"({"INSTRUCTION":"COPY","SRC":"a"})", "it has no DST that is a string");
  expect(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":["no"],"RESULT":[],"TIME":1})",
         "'no' is used and never defined");
  expect(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[],"RESULT":[],"TIME":1})",
         "an op has no result");
  expect(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[],"RESULT":["z"],"TIME":"soon"})",
         "it has no TIME that is an integer");
  expect(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[[]],"RESULT":["z"],"TIME":"1"})",
         "it has no ARGS that is a list");
  expect(R"({"INSTRUCTION":"MUTATE","NAME":"f","ARGS":["a"],"MUTATE":[1],"TIME":1})",
         "operand 1 is written, and the op has 1");
  expect(R"({"INSTRUCTION":"MUTATE","NAME":"f","ARGS":["a"],"MUTATE":["x"],"TIME":1})",
         "'x' is no index of an operand");
  expect(R"({"INSTRUCTION":"MUTATE","NAME":"f","ARGS":["a"],"MUTATE":[],"TIME":1})",
         "an op has no result");
  expect("{\"INSTRUCTION\":\"\xff\"}", "the instruction '?' is not known");
  EXPECT_EQ(error_of(""), "line 1 of my.log cannot be read: the log holds no op.");
}

TEST(SimrdLog, ChecksWhatFollowsAnOp) {
  const std::string call =
      R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":["w"],"RESULT":["z"],"TIME":1})";
  auto with = [&](const std::string& memory, const std::string& alias) {
    return error_of(kSmall + call + "\n" + memory + "\n" + alias + "\n");
  };
  const std::string memory = R"({"INSTRUCTION":"MEMORY","NAME":"z","MEMORY":4})";
  EXPECT_EQ(with(memory, R"({"INSTRUCTION":"ALIAS","NAME":"z","ALIAS":0})"), "");
  EXPECT_EQ(
      with(memory, R"({"INSTRUCTION":"ALIAS","NAME":"z","ALIAS":1})"),
      "line 18 of my.log cannot be read: a result is an alias of operand 1, and the op has 1.");
  EXPECT_EQ(with(memory, memory),
            "line 18 of my.log cannot be read: the ALIAS of 'z' is expected.");
  EXPECT_EQ(with(R"({"INSTRUCTION":"MEMORY","NAME":"y","MEMORY":4})", "{}"),
            "line 17 of my.log cannot be read: the MEMORY of 'z' is expected.");
  EXPECT_EQ(with(R"({"INSTRUCTION":"MEMORY","NAME":"z","MEMORY":-4})",
                 R"({"INSTRUCTION":"ALIAS","NAME":"z","ALIAS":-1})"),
            "line 18 of my.log cannot be read: a size or a time is below zero.");
  EXPECT_EQ(with(R"({"INSTRUCTION":"MEMORY","NAME":"z","MEMORY":"999999999999999999"})",
                 R"({"INSTRUCTION":"ALIAS","NAME":"z","ALIAS":-1})"),
            "line 18 of my.log cannot be read: the sizes or the times add up to more than 2^59.");
}

TEST(SimrdLog, NothingIsUsedAfterItsRelease) {
  const std::string gone = std::string(kSmall) + R"({"INSTRUCTION":"RELEASE","NAME":"a"}
{"INSTRUCTION":"RELEASE","NAME":"b"}
)";
  EXPECT_EQ(error_of(gone), "");
  EXPECT_EQ(error_of(gone + R"({"INSTRUCTION":"RELEASE","NAME":"b"})"),
            "line 18 of my.log cannot be read: what was released already is released again.");
  EXPECT_EQ(error_of(gone + R"({"INSTRUCTION":"COPY","SRC":"a","DST":"c"})"),
            "line 18 of my.log cannot be read: what was released already gets a name.");
  EXPECT_EQ(
      error_of(gone + R"({"INSTRUCTION":"MUTATE","NAME":"f","ARGS":["a"],"MUTATE":[0],"TIME":1})"),
      "line 18 of my.log cannot be read: 'a' is used after its release.");
}

TEST(SimrdLog, AFileThatIsNotThereIsNamed) {
  const Result<Program> program = read_log_file("no/such/log");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().message(), "no/such/log cannot be read: No such file or directory.");
}

}  // namespace
}  // namespace outsize::sim::simrd
