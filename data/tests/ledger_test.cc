// The ledger of a training: its files, and what they prove.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "data/ledger/check_ledger.h"

namespace xoe::data {
namespace {

// Two ranks with two records each in a step, in an epoch of eight records; world 1 from step 1 on.
LedgerLines two_steps() {
  LedgerLines lines;
  lines.data = {{.records = 8, .fingerprint = 7, .run = 5}};
  for (int rank = 0; rank < 2; ++rank) lines.worlds.push_back({.number = 1, .rank = rank, .size = 2});
  lines.steps = {{.world = 1, .step = 1, .rank = 0, .left = 1, .records = {0, 2}},
                 {.world = 1, .step = 1, .rank = 1, .left = 1, .records = {1, 3}},
                 {.world = 1, .step = 2, .rank = 0, .left = 0, .records = {4, 6}},
                 {.world = 1, .step = 2, .rank = 1, .left = 0, .records = {5, 7}}};
  lines.done = {{.world = 1, .step = 2}};
  return lines;
}

LedgerProof prove(const LedgerLines& lines, std::optional<std::int64_t> epoch = {}) {
  const auto proof = check_ledger(lines, {}, epoch);
  EXPECT_TRUE(proof) << proof.error().message();
  return proof.value_or(LedgerProof());
}

TEST(LedgerTest, EachRecordOnceIsProved) {
  const LedgerProof proof = prove(two_steps());
  ASSERT_EQ(proof.epochs.size(), 1u);
  EXPECT_TRUE(proof.epochs[0].exact());
  EXPECT_EQ(proof.last_step, 2);
  EXPECT_TRUE(proof.silent.empty() && proof.undone.empty());
}

TEST(LedgerTest, MissingAndDoubledRecordsAreNamed) {
  LedgerLines lines = two_steps();
  lines.steps[3].records = {5, 2};
  const EpochProof epoch = prove(lines).epochs.at(0);
  EXPECT_FALSE(epoch.exact());
  EXPECT_FALSE(epoch.exact_but_for_rest());
  EXPECT_EQ(epoch.missing, std::vector<std::int64_t>{7});
  ASSERT_EQ(epoch.doubled.size(), 1u);
  EXPECT_EQ(epoch.doubled[0].record, 2);
  const std::vector<LedgerPlace> places{{.world = 1, .step = 1, .rank = 0}, {.world = 1, .step = 2, .rank = 1}};
  EXPECT_EQ(epoch.doubled[0].places, places);
}

TEST(LedgerTest, ARestThatFillsNoStepIsTold) {
  LedgerLines lines = two_steps();
  lines.data[0].records = 11;
  const EpochProof epoch = prove(lines).epochs.at(0);
  EXPECT_FALSE(epoch.exact());
  EXPECT_TRUE(epoch.exact_but_for_rest());
  lines.data[0].records = 12;  // another step would have fitted
  EXPECT_FALSE(prove(lines).epochs.at(0).exact_but_for_rest());
}

TEST(LedgerTest, AStepInFlightIsNotCountedTwice) {
  LedgerLines lines = two_steps();
  lines.done.clear();
  // Rank 1 is lost in step 2, which the other does again, alone.
  lines.worlds.push_back({.number = 2, .rank = 0, .size = 1, .first_step = 2});
  lines.steps.push_back({.world = 2, .step = 2, .rank = 0, .left = 0, .records = {4, 5, 6, 7}});
  lines.done = {{.world = 2, .step = 2}};
  const LedgerProof proof = prove(lines);
  EXPECT_TRUE(proof.epochs.at(0).exact());
  const std::vector<LedgerPlace> undone{{.world = 1, .step = 2, .rank = 0}, {.world = 1, .step = 2, .rank = 1}};
  EXPECT_EQ(proof.undone, undone);
}

TEST(LedgerTest, AStepThatAnotherWorldStandsOnCountsWithoutBeingToldDone) {
  LedgerLines lines = two_steps();
  lines.done.clear();
  EXPECT_FALSE(prove(lines).epochs.at(0).ended);
  lines.worlds.push_back({.number = 2, .rank = 0, .size = 1, .first_step = 3});
  EXPECT_TRUE(prove(lines).epochs.at(0).exact());
}

TEST(LedgerTest, StepsBehindACheckpointThatARunResumedFromAreForgotten) {
  LedgerLines lines = two_steps();
  lines.worlds.push_back({.number = 2, .rank = 0, .size = 1, .first_step = 1});
  lines.steps.push_back({.world = 2, .step = 1, .rank = 0, .left = 0, .records = {0, 1, 2, 3, 4, 5, 6, 7}});
  lines.done = {{.world = 1, .step = 2}, {.world = 2, .step = 1}};
  const LedgerProof proof = prove(lines);
  EXPECT_TRUE(proof.epochs.at(0).exact());
  EXPECT_EQ(proof.undone.size(), 4u);
}

TEST(LedgerTest, AnEpochThatHasNotEndedIsNoProof) {
  LedgerLines lines = two_steps();
  lines.done = {{.world = 1, .step = 1}};
  const EpochProof epoch = prove(lines).epochs.at(0);
  EXPECT_FALSE(epoch.ended);
  EXPECT_FALSE(epoch.exact());
  EXPECT_FALSE(prove(two_steps(), 3).epochs.at(0).ended);  // none that the ledger knows
}

TEST(LedgerTest, WhatARankDoesNotTellIsNoProof) {
  LedgerLines lines = two_steps();
  lines.steps.erase(lines.steps.begin() + 1);
  const LedgerProof proof = prove(lines);
  const std::vector<LedgerPlace> silent{{.world = 1, .step = 1, .rank = 1}};
  EXPECT_EQ(proof.silent, silent);
}

TEST(LedgerTest, TwoTrainingsInOneFolderAreRefused) {
  LedgerLines lines = two_steps();
  lines.worlds.push_back({.number = 1, .rank = 0, .size = 2});
  EXPECT_EQ(check_ledger(lines).error().code(), Code::kDataLoss);
  lines = two_steps();
  lines.worlds.push_back({.number = 1, .rank = 2, .size = 3});
  EXPECT_EQ(check_ledger(lines).error().code(), Code::kDataLoss);
}

// One after the other, in worlds of different numbers: the first one's steps would pass for undone ones of the second.
TEST(LedgerTest, TwoTrainingsThatFollowEachOtherAreNamed) {
  LedgerLines lines = two_steps();
  lines.data[0].told = "a.ledger";
  lines.worlds.push_back({.number = 2, .rank = 0, .size = 1, .first_step = 1});
  lines.steps.push_back({.world = 2, .step = 1, .rank = 0, .left = 0, .records = {0, 1, 2, 3, 4, 5, 6, 7}});
  lines.done.push_back({.world = 2, .step = 1});
  lines.data.push_back({.records = 8, .fingerprint = 7, .run = 5, .told = "b.ledger"});
  EXPECT_TRUE(check_ledger(lines));  // one training, which went on from its checkpoint
  lines.data[1].run = 6;
  const auto proof = check_ledger(lines);
  ASSERT_FALSE(proof);
  EXPECT_EQ(proof.error().code(), Code::kDataLoss);
  for (const char* const name : {"a.ledger", "b.ledger"})
    EXPECT_NE(proof.error().message().find(name), std::string::npos) << proof.error().message();
}

TEST(LedgerTest, FilesOfVersionOneAreRead) {
  LedgerLines lines;
  ASSERT_TRUE(parse_ledger(ledger_checked("ledger 1 8 7"), "old", lines));
  EXPECT_EQ(lines.data, std::vector<LedgerData>({{.records = 8, .fingerprint = 7}}));
  EXPECT_FALSE(parse_ledger(ledger_checked("ledger 2 8 7"), "short", lines));
  EXPECT_FALSE(parse_ledger(ledger_checked("ledger 1 8 7 5"), "long", lines));
}

TEST(LedgerTest, FilesHoldWhatWasWritten) {
  const Scratch scratch;
  const std::string folder = scratch.file("ledger");
  EXPECT_TRUE(look_at_ledger(folder).value().empty());
  const LedgerLines lines = two_steps();
  std::string path;
  {
    auto writer = LedgerWriter::open(folder, lines.data[0]);
    ASSERT_TRUE(writer) << writer.error().message();
    for (const auto& world : lines.worlds) ASSERT_TRUE(writer->world(world));
    for (const auto& step : lines.steps) ASSERT_TRUE(writer->step(step));
    for (const auto& done : lines.done) ASSERT_TRUE(writer->done(done));
    path = writer->path();
  }
  const LedgerFolder found = look_at_ledger(folder).value();
  EXPECT_EQ(found.last_world, 1);
  EXPECT_EQ(found.run, 5u);
  EXPECT_EQ(found.file, path);
  const std::vector<std::string> folders{folder};
  auto read = read_ledger(folders);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->steps, lines.steps);
  EXPECT_EQ(read->done, lines.done);
  EXPECT_EQ(read->data, lines.data);

  // A last line that was cut off is as if it had not been written; other damage is named.
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 3);
  read = read_ledger(folders);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(read->done.empty());
  std::fstream(path, std::ios::in | std::ios::out).seekp(40).put('x');
  read = read_ledger(folders);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kDataLoss);
  EXPECT_NE(read.error().message().find("line 2 is damaged"), std::string::npos) << read.error().message();
}

TEST(LedgerTest, FoldersWithoutLedgersAreNamed) {
  const Scratch scratch;
  const std::vector<std::string> folders{scratch.file("none")};
  EXPECT_EQ(read_ledger(folders).error().code(), Code::kUnavailable);
  std::filesystem::create_directories(folders[0]);
  EXPECT_EQ(read_ledger(folders).error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace xoe::data
