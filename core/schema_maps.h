// Maps of keys with values that are read into structs with tables: the sections of a sweep file. Checks of structs that
// a program filled in.
#pragma once

#include "core/schema.h"

namespace lacuna {

template <>
const Codec& codec_of<Tree>();  // any value
template <>
const Codec& codec_of<std::vector<TreeEntry>>();  // keys with values

/// Reads a map into an object. `name` stands for the map in messages.
inline void read_map(const Tree& from, const Fields& fields, void* object, std::string_view name, Problems& problems) {
  detail::read_rule(from, fields, object, name, problems);
}

/// Refuses values that the table of the object does not allow; `section` precedes their names in the message.
void check_values(std::string_view section, const Fields& fields, void* object);
template <HasFields T>
void check_values(std::string_view section, T object) {
  check_values(section, T::fields(), &object);
}

}  // namespace lacuna
