#!lua
-- Takes in URLs: each is checked against the seen filter, queued at its host, and
-- only then marked seen. Refused as a whole when Redis is out of memory.
--
-- ARGV  2 worker, 3 sequence number of this push by that worker: a push that is
--         sent again after its reply was lost changes nothing
--       4 layers the caller knows; 5 capacity of the last of them
--       6 msgpack list of {kind, host, level, entry, bits by layer, key, sampled}:
--         kind 0 link, 1 seed, 2 unfiltered, 3 filtered before it came here (its
--         entry is the reason); bits are offsets into the layer's bitmap; key is
--         exact, and sampled is 1 for the share of URLs that is audited
--       7 links that the caller recognised as seen by itself
-- Reply {layers open, msgpack list of 0 = new, else seen before: the layer (from 1) that
--       holds it, -1 if none does} or, when other layers are open than the caller
--       knows, {layers open}: nothing was done
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _novelty.lua
if STATE == 'finished' then return redis.error_reply('FINISHED the crawl has finished') end
local known = tonumber(ARGV[4])
local open = tonumber(redis.call('HGET', LAYERS, 'open'))
if open ~= known then return {open} end
local pushes = 'push:' .. ARGV[2]
if tonumber(redis.call('HGET', META, pushes) or 0) >= tonumber(ARGV[3]) then
  return {open, cmsgpack.pack({})}
end

local function holds(layer, offsets)
  for _, offset in ipairs(offsets) do
    if redis.call('GETBIT', SEEN .. (layer - 1), offset) == 0 then return false end
  end
  return true
end

local function layer_of(bits)
  for layer = known, 1, -1 do
    if holds(layer, bits[layer]) then return layer end
  end
end

-- The layer in which an item was seen before, -1 if in none, or nil if the item is new.
local function seen(kind, bits, key, sampled)
  if kind == 2 then return nil end
  local layer = layer_of(bits)
  if kind == 1 then return redis.call('SISMEMBER', SEEDS, key) == 1 and (layer or -1) or nil end
  if sampled == 0 then return layer end
  if redis.call('SISMEMBER', AUDIT, key) == 1 then return layer or -1 end
  count('audit_new', 1)
  if layer then count('audit_false', 1) end
end

local new_items = 0
local function mark(kind, bits, key, sampled)
  if kind == 2 then return end
  for _, offset in ipairs(bits[known]) do redis.call('SETBIT', SEEN .. (known - 1), offset, 1) end
  if kind == 1 then redis.call('SADD', SEEDS, key) end
  if sampled == 1 then redis.call('SADD', AUDIT, key) end
  new_items = new_items + 1
end

local found = {}
for i, item in ipairs(cmsgpack.unpack(ARGV[6])) do
  local kind, name, level, entry, bits, key, sampled = unpack(item, 1, 7)
  local layer = seen(kind, bits, key, sampled)
  if NOVELTY and kind == 0 then load_host(name).mentions = (load_host(name).mentions or 0) + 1 end
  if layer then
    count('duplicates', 1)
    if kind == 0 then found_again(name, key) end
  else
    if kind == 3 then count('filtered:' .. entry, 1) else enqueue(name, level, entry, false) end
    if kind == 0 then first_found(key, level, entry) end
    mark(kind, bits, key, sampled)
    count('discovered', 1)
  end
  found[i] = layer or 0
end
count('duplicates', tonumber(ARGV[7]))
save_hosts()
save_counts()
redis.call('HSET', META, pushes, ARGV[3])
if redis.call('HINCRBY', LAYERS, 'items:' .. (known - 1), new_items) >= tonumber(ARGV[5]) then
  open = redis.call('HINCRBY', LAYERS, 'open', 1)
end
return {open, cmsgpack.pack(found)}
