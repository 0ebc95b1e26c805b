// plugins/directory in C: volumes are directories of a pool that the administrator grants as `volumes`. An id is made of the volume's name,
// its size is a record under the id, written last and removed last: a call that dies half-way is completed by its retry.
//
// `plugin.h` and `plugin.c` are generated from `plugin.wit`. A function answers true and fills `ret`, or false and fills `err`.
//  * Nothing is freed here: every call runs in an instance of its own, whose memory goes with it.
//  * The generated code does free what is answered, so no answer holds a literal: `copy` it.
#include "plugin.h"
#include "sha256.h"

#include <stdlib.h>
#include <string.h>

typedef plugin_string_t string;
typedef wasmount_csi_types_error_t error;
typedef wasmount_csi_types_attributes_t attributes;
typedef wasmount_csi_types_volume_capability_t capability;
typedef wasmount_csi_types_capacity_range_t capacity_range;

#define LITERAL(text) ((string){(uint8_t *)(text), sizeof(text) - 1})
// Strings one after the other, in memory that an answer may hold.
#define TEXT(...) join((const string[]){__VA_ARGS__}, sizeof((const string[]){__VA_ARGS__}) / sizeof(string))
#define PREFIX "directory-"
#define HASH_DIGITS (2 * SHA256_BYTES)
#define DECIMAL_DIGITS 20                // of the largest u64

static const uint64_t MINIMUM_BYTES = 4 << 10; // one block of a file system
static const uint64_t DEFAULT_BYTES = 1 << 30; // for a claim that names no size
static string VOLUMES = {(uint8_t *)"volumes", 7};

// A volume's record, if it has one.
typedef struct {
  bool exists;
  uint64_t bytes;
  wasmount_csi_state_revision_t revision;
} record;

// ---- strings ------------------------------------------------------------------------------------------------------------------------

static string join(const string *parts, size_t count) {
  string whole = {NULL, 0};
  for (size_t i = 0; i < count; i++) whole.len += parts[i].len;
  whole.ptr = malloc(whole.len + 1);
  if (whole.ptr == NULL) abort();
  size_t at = 0;
  for (size_t i = 0; i < count; at += parts[i++].len)
    if (parts[i].len > 0) memcpy(whole.ptr + at, parts[i].ptr, parts[i].len);
  return whole;
}

static string copy(string text) { return TEXT(text); }

static string decimal(uint64_t number) {
  uint8_t digits[DECIMAL_DIGITS];
  size_t at = DECIMAL_DIGITS;
  do digits[--at] = (uint8_t)('0' + number % 10);
  while ((number /= 10) > 0);
  return copy((string){digits + at, DECIMAL_DIGITS - at});
}

static bool parse_decimal(const plugin_list_u8_t *text, uint64_t *number) {
  *number = 0;
  for (size_t i = 0; i < text->len; i++) {
    uint64_t digit = (uint64_t)text->ptr[i] - '0';
    if (digit > 9 || *number > (UINT64_MAX - digit) / 10) return false;
    *number = *number * 10 + digit;
  }
  return text->len > 0;
}

static bool fail(error *err, wasmount_csi_types_code_t code, string message) {
  *err = (error){code, copy(message)};
  return false;
}

// ---- what is asked for --------------------------------------------------------------------------------------------------------------

static bool begins_with(string text, string prefix) { return text.len >= prefix.len && memcmp(text.ptr, prefix.ptr, prefix.len) == 0; }

// Kubernetes itself adds such keys, for example external-provisioner with `--extra-create-metadata`.
static bool is_reserved(string key) {
  return begins_with(key, LITERAL("csi.storage.k8s.io/")) || begins_with(key, LITERAL("storage.kubernetes.io/"));
}

// A misspelt parameter must not pass in silence, and this backend knows none.
static bool check_no_parameters(const attributes *parameters, error *err) {
  for (size_t i = 0; i < parameters->len; i++) {
    string key = parameters->ptr[i].f0;
    if (!is_reserved(key))
      return fail(err, WASMOUNT_CSI_TYPES_CODE_INVALID_ARGUMENT,
                  TEXT(LITERAL("unknown parameter `"), key, LITERAL("`: this driver knows none")));
  }
  return true;
}

static bool is_on_one_node(const wasmount_csi_types_access_mode_t *mode) {
  switch (mode->tag) {
    case WASMOUNT_CSI_TYPES_ACCESS_MODE_SINGLE_NODE_WRITER:
    case WASMOUNT_CSI_TYPES_ACCESS_MODE_SINGLE_NODE_READER_ONLY:
    case WASMOUNT_CSI_TYPES_ACCESS_MODE_SINGLE_NODE_SINGLE_WRITER:
    case WASMOUNT_CSI_TYPES_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER: return true;
    default: return false;
  }
}

// A directory is no block device, is on one node at a time, and has nothing to choose.
static bool check(const capability *capabilities, size_t count, const attributes *parameters, error *err) {
  if (!check_no_parameters(parameters, err)) return false;
  for (size_t i = 0; i < count; i++) {
    if (capabilities[i].access_type.tag != WASMOUNT_CSI_TYPES_ACCESS_TYPE_MOUNT)
      return fail(err, WASMOUNT_CSI_TYPES_CODE_INVALID_ARGUMENT,
                  LITERAL("volumes of this driver are file systems: use volumeMode Filesystem"));
    if (!is_on_one_node(&capabilities[i].access_mode))
      return fail(err, WASMOUNT_CSI_TYPES_CODE_INVALID_ARGUMENT,
                  LITERAL("volumes of this driver are used on one node at a time: use ReadWriteOnce or ReadWriteOncePod"));
  }
  return true;
}

static uint64_t required(const capacity_range *range) { return range->required_bytes.is_some ? range->required_bytes.val : 0; }

static uint64_t limit(const capacity_range *range) { return range->limit_bytes.is_some ? range->limit_bytes.val : UINT64_MAX; }

static bool within_limit(const capacity_range *range, uint64_t bytes, error *err) {
  if (bytes <= limit(range)) return true;
  return fail(err, WASMOUNT_CSI_TYPES_CODE_OUT_OF_RANGE,
              TEXT(LITERAL("the volume takes "), decimal(bytes), LITERAL(" bytes, the limit is "), decimal(limit(range)),
                   LITERAL(": raise the limit")));
}

// The size of a volume that an earlier call of the same name may have made.
static bool agree(const capacity_range *range, const record *known, uint64_t *bytes, error *err) {
  if (known->exists) {
    *bytes = known->bytes;
    if (*bytes >= required(range) && *bytes <= limit(range)) return true;
    return fail(err, WASMOUNT_CSI_TYPES_CODE_ALREADY_EXISTS,
                TEXT(LITERAL("a volume of this name is there with "), decimal(*bytes), LITERAL(" bytes: use another name")));
  }
  uint64_t unasked = DEFAULT_BYTES < limit(range) ? DEFAULT_BYTES : limit(range);
  *bytes = range->required_bytes.is_some ? required(range) : unasked;
  if (*bytes < MINIMUM_BYTES) *bytes = MINIMUM_BYTES;
  return within_limit(range, *bytes, err);
}

// ---- ids and records ----------------------------------------------------------------------------------------------------------------

static string id_of_name(string name) {
  uint8_t hash[SHA256_BYTES], digits[HASH_DIGITS];
  sha256(name.ptr, name.len, hash);
  for (size_t i = 0; i < HASH_DIGITS; i++) digits[i] = (uint8_t)"0123456789abcdef"[hash[i / 2] >> (i % 2 ? 0 : 4) & 15];
  return TEXT(LITERAL(PREFIX), (string){digits, HASH_DIGITS});
}

// Ids arrive from clients: one that was not made here may be `../../etc`.
static bool is_id(string id) {
  size_t prefix = sizeof(PREFIX) - 1;
  if (id.len != prefix + HASH_DIGITS || memcmp(id.ptr, PREFIX, prefix) != 0) return false;
  for (size_t i = prefix; i < id.len; i++) {
    uint8_t digit = id.ptr[i];
    if (!(digit >= '0' && digit <= '9') && !(digit >= 'a' && digit <= 'f')) return false;
  }
  return true;
}

static bool read_entry(string id, const wasmount_csi_state_entry_t *entry, record *found, error *err) {
  *found = (record){.exists = true, .revision = entry->revision};
  if (parse_decimal(&entry->value, &found->bytes)) return true;
  return fail(err, WASMOUNT_CSI_TYPES_CODE_DATA_LOSS, TEXT(LITERAL("the record of `"), id, LITERAL("` is not readable")));
}

static bool get(string id, record *found, error *err) {
  wasmount_csi_state_option_entry_t entry;
  if (!wasmount_csi_state_get(&id, &entry, err)) return false;
  *found = (record){.exists = false};
  return !entry.is_some || read_entry(id, &entry.val, found, err);
}

static bool require(string id, record *found, error *err) {
  if (!get(id, found, err)) return false;
  if (found->exists) return true;
  return fail(err, WASMOUNT_CSI_TYPES_CODE_NOT_FOUND, TEXT(LITERAL("`"), id, LITERAL("` does not exist")));
}

// Somebody else's record of the same size is as good as ours: the call was made twice.
static bool put(string id, uint64_t bytes, wasmount_csi_state_expect_t expect, error *err) {
  string value = decimal(bytes);
  plugin_list_u8_t stored = {value.ptr, value.len};
  wasmount_csi_state_outcome_t outcome;
  if (!wasmount_csi_state_put(&id, &stored, &expect, &outcome, err)) return false;
  if (outcome.tag == WASMOUNT_CSI_STATE_OUTCOME_DONE) return true;
  record there;
  if (expect.tag == WASMOUNT_CSI_STATE_EXPECT_ABSENT && outcome.val.conflict.is_some) {
    if (!read_entry(id, &outcome.val.conflict.val, &there, err)) return false;
    if (there.bytes == bytes) return true;
  }
  return fail(err, WASMOUNT_CSI_TYPES_CODE_ABORTED, TEXT(LITERAL("another call changed `"), id, LITERAL("` meanwhile: retry")));
}

// Makes a directory and promises bytes to it, or neither: a directory that was there before stays.
static bool create_directory_of(string id, uint64_t bytes, error *err) {
  wasmount_csi_pool_option_entry_t before;
  bool is_enforced;
  error unremoved;
  if (!wasmount_csi_pool_stat(&VOLUMES, &id, &before, err) || !wasmount_csi_pool_create_directory(&VOLUMES, &id, err)) return false;
  if (wasmount_csi_pool_set_quota(&VOLUMES, &id, &bytes, &is_enforced, err)) return true;
  if (!before.is_some && !wasmount_csi_pool_remove_directory(&VOLUMES, &id, &unremoved)) *err = unremoved;
  return false;
}

// ---- identity -----------------------------------------------------------------------------------------------------------------------

void exports_wasmount_csi_identity_get_plugin_info(exports_wasmount_csi_identity_plugin_info_t *ret) {
  string *features = malloc(sizeof(string));
  if (features == NULL) abort();
  features[0] = copy(LITERAL("single-node-multi-writer"));
  *ret = (exports_wasmount_csi_identity_plugin_info_t){
      .name = copy(LITERAL("directory-c.wasmount.io")),
      .version = copy(LITERAL("0.1.0")),
      .features = {features, 1},
  };
}

bool exports_wasmount_csi_identity_probe(bool *ret, error *err) {
  (void)err;
  *ret = true;
  return true;
}

bool exports_wasmount_csi_identity_check_settings(plugin_list_string_t *ret, error *err) {
  (void)err;
  *ret = (plugin_list_string_t){NULL, 0};
  return true;
}

// ---- controller ---------------------------------------------------------------------------------------------------------------------

bool exports_wasmount_csi_controller_create_volume(exports_wasmount_csi_controller_create_volume_args_t *args,
                                                   exports_wasmount_csi_controller_volume_t *ret, error *err) {
  if (!check(args->capabilities.ptr, args->capabilities.len, &args->parameters, err)) return false;
  if (!check_no_parameters(&args->mutable_parameters, err)) return false;
  if (args->content_source.is_some)
    return fail(err, WASMOUNT_CSI_TYPES_CODE_INVALID_ARGUMENT,
                LITERAL("volumes of this driver start empty: create one without dataSource"));
  string id = id_of_name(args->name);
  record known;
  uint64_t bytes;
  uint32_t mode = 0777; // pods run as any user
  bool is_made = get(id, &known, err) && agree(&args->capacity, &known, &bytes, err) && create_directory_of(id, bytes, err) &&
                 wasmount_csi_pool_set_permissions(&VOLUMES, &id, mode, NULL, NULL, err) &&
                 put(id, bytes, (wasmount_csi_state_expect_t){.tag = WASMOUNT_CSI_STATE_EXPECT_ABSENT}, err);
  if (is_made) *ret = (exports_wasmount_csi_controller_volume_t){.id = id, .capacity_bytes = bytes};
  return is_made;
}

bool exports_wasmount_csi_controller_delete_volume(string *id, error *err) {
  if (!is_id(*id)) return true;
  wasmount_csi_state_expect_t any = {.tag = WASMOUNT_CSI_STATE_EXPECT_ANY};
  wasmount_csi_state_outcome_t outcome;
  return wasmount_csi_pool_remove_directory(&VOLUMES, id, err) && wasmount_csi_state_remove(id, &any, &outcome, err);
}

bool exports_wasmount_csi_controller_validate_volume_capabilities(exports_wasmount_csi_controller_validate_args_t *args,
                                                                  exports_wasmount_csi_controller_validation_t *ret, error *err) {
  record volume;
  if (!require(args->id, &volume, err)) return false;
  error why;
  if (check(args->capabilities.ptr, args->capabilities.len, &args->parameters, &why)) {
    ret->tag = EXPORTS_WASMOUNT_CSI_CONTROLLER_VALIDATION_CONFIRMED;
  } else {
    ret->tag = EXPORTS_WASMOUNT_CSI_CONTROLLER_VALIDATION_UNSUPPORTED;
    ret->val.unsupported = why.message;
  }
  return true;
}

bool exports_wasmount_csi_controller_expand_expand_volume(exports_wasmount_csi_controller_expand_expand_args_t *args,
                                                          exports_wasmount_csi_controller_expand_expanded_t *ret, error *err) {
  record volume;
  if (!require(args->id, &volume, err)) return false;
  uint64_t bytes = volume.bytes > required(&args->capacity) ? volume.bytes : required(&args->capacity);
  bool is_enforced;
  wasmount_csi_state_expect_t unchanged = {.tag = WASMOUNT_CSI_STATE_EXPECT_REVISION, .val.revision = volume.revision};
  bool has_grown = within_limit(&args->capacity, bytes, err) &&
                   wasmount_csi_pool_set_quota(&VOLUMES, &args->id, &bytes, &is_enforced, err) && put(args->id, bytes, unchanged, err);
  if (has_grown) *ret = (exports_wasmount_csi_controller_expand_expanded_t){.capacity_bytes = bytes};
  return has_grown;
}

bool exports_wasmount_csi_capacity_get_capacity(exports_wasmount_csi_capacity_capacity_args_t *args,
                                                exports_wasmount_csi_capacity_available_t *ret, error *err) {
  wasmount_csi_pool_usage_t usage;
  if (!wasmount_csi_pool_capacity(&VOLUMES, &usage, err)) return false;
  error why;
  bool is_usable = check(args->capabilities.ptr, args->capabilities.len, &args->parameters, &why);
  uint64_t bytes = is_usable ? usage.available_bytes : 0;
  *ret = (exports_wasmount_csi_capacity_available_t){.available_bytes = bytes, .maximum_volume_bytes = {true, bytes}};
  return true;
}

// ---- node ---------------------------------------------------------------------------------------------------------------------------

bool exports_wasmount_csi_node_stage_node_stage(exports_wasmount_csi_node_stage_node_stage_args_t *args, error *err) {
  if (!is_id(args->id))
    return fail(err, WASMOUNT_CSI_TYPES_CODE_NOT_FOUND, LITERAL("this driver makes no such ids: nothing has it"));
  return wasmount_csi_node_plan_directory(&VOLUMES, &args->id, err);
}
