// Sentencepiece's mark of a space, `▁`.
#pragma once

#include <string>

namespace lacuna {

class JsonReader;

struct Metaspace {
  enum Scheme : unsigned char { always, first, never };  // the words that get a mark in front
  std::string mark;
  Scheme scheme = always;
};
Metaspace read_metaspace(const JsonReader& object);

}  // namespace lacuna
