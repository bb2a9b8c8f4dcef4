-- Included where URLs are taken in: the seen filter. What a push takes in is noted while it
-- runs and marked at its end, when it is in its queue: should the script die in between, a URL
-- is queued twice and never lost.
--
-- ARGV[4] layers the caller knows, ARGV[8] bits of a URL in each of them, separated by spaces.
-- The bits of a URL are one string: offsets into the layers' bitmaps, four bytes each.
local known = tonumber(ARGV[4])
local first_byte, after_last = {}, {}
do
  local at = 1
  for bits in ARGV[8]:gmatch('%d+') do
    first_byte[#first_byte + 1] = at
    at = at + 4 * bits
    after_last[#after_last + 1] = at
  end
end

local function holds(layer, bits)
  local bitmap = SEEN .. (layer - 1)
  for at = first_byte[layer], after_last[layer] - 1, 4 do
    local offset = struct.unpack('>I4', bits, at)
    if redis.call('GETBIT', bitmap, offset) == 0 then return false end
  end
  return true
end

local fresh, fresh_seeds, fresh_audited, new_items = {}, {}, {}, 0

local function layer_of(bits)
  if fresh[bits] then return known end
  for layer = known, 1, -1 do
    if holds(layer, bits) then return layer end
  end
end

-- The layer in which an item was seen before, -1 if in none, or nil if the item is new.
local function seen(kind, bits, key, sampled)
  if kind == KIND.UNFILTERED then return nil end
  local layer = layer_of(bits)
  if kind == KIND.SEED then
    local is_known = fresh_seeds[key] or redis.call('SISMEMBER', SEEDS, key) == 1
    return is_known and (layer or -1) or nil
  end
  if sampled == 0 then return layer end
  if fresh_audited[key] or redis.call('SISMEMBER', AUDIT, key) == 1 then return layer or -1 end
  count('audit_new', 1)
  if layer then count('audit_false', 1) end
end

local function note(kind, bits, key, sampled)
  if kind == KIND.UNFILTERED then return end
  fresh[bits] = true
  if kind == KIND.SEED then fresh_seeds[key] = true end
  if sampled == 1 then fresh_audited[key] = true end
  new_items = new_items + 1
end

-- All bits of a URL with one command, from a list of arguments that is made once.
local function mark_all()
  local bitmap, start = SEEN .. (known - 1), first_byte[known]
  local count_of_bits = (after_last[known] - start) / 4
  local format, arguments = '>' .. ('I4'):rep(count_of_bits), {}
  for i = 1, count_of_bits do
    arguments[4 * i - 3], arguments[4 * i - 2], arguments[4 * i - 1], arguments[4 * i] = 'SET', 'u1', 0, 1
  end
  for bits in pairs(fresh) do
    local offsets = {struct.unpack(format, bits, start)}
    for i = 1, count_of_bits do arguments[4 * i - 1] = offsets[i] end
    redis.call('BITFIELD', bitmap, unpack(arguments))
  end
  for key in pairs(fresh_seeds) do redis.call('SADD', SEEDS, key) end
  for key in pairs(fresh_audited) do redis.call('SADD', AUDIT, key) end
end
