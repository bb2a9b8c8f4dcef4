#!lua
-- Takes in URLs: each is checked against the seen filter, queued at its host, and
-- only then marked seen. Refused as a whole when Redis is out of memory.
--
-- ARGV  2 worker, 3 sequence number of this push by that worker: a push that is
--         sent again after its reply was lost changes nothing
--       4 layers the caller knows; 5 capacity of the last of them
--       6 msgpack list of kind, host, level, entry, bits, key, sampled of one URL after the other:
--         kind (KIND in _damage.lua) 0 link, 1 seed, 2 unfiltered, 3 filtered before it came here
--         (its entry is the reason), 4 of a pattern that is set aside (its entry is msgpack
--         {pattern, why, entry, key of the URL}); bits as _seen.lua reads them; key is exact, for
--         seeds and those that are sampled; sampled is 1 for the share of URLs that is audited
--       7 links that the caller recognised as seen by itself
--       8 see _seen.lua
--       9 msgpack list of host, group or '', connections of the host or its group or 0 if that is
--         not said, of one host after the other that there is something to say of
--      10 what the caller's last push has added to the seen filter, for the others, or '';
--      11 the server where it was added: another may have lost it
-- Reply {layers open, msgpack list of 0 = new, else seen before: the layer (from 1) that
--       holds it, -1 if none does} or, when other layers are open than the caller
--       knows, {layers open}: nothing was done
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _novelty.lua
--include _seen.lua
--include _server.lua
--include _patterns.lua
local FIELDS, MOST_UPDATES, BYTES_OF_UPDATES = 7, 1000, 2 ^ 19
if STATE == 'finished' then return redis.error_reply('FINISHED the crawl has finished') end
local open = tonumber(redis.call('HGET', LAYERS, 'open'))
if open ~= known then return {open} end
local pushes = 'push:' .. ARGV[2]
if tonumber(redis.call('HGET', META, pushes) or 0) >= tonumber(ARGV[3]) then
  return {open, cmsgpack.pack({})}
end

-- New entries by the queue they go to. Where links that are found again move from queue to
-- queue, each goes there at once.
local queues, queued, discovered = {}, 0, 0
local function append(name, level, entry)
  if NOVELTY then return enqueue(name, level, entry, false) end
  local key = queue_of(name, level)
  local queue = queues[key]
  if queue then
    queue[#queue + 1] = entry
  else
    queues[key] = {entry}
  end
  note_level(name, level)
  reserve(name, level, 1)
  queued = queued + 1
end

local function settle_in(name, group, connections)
  if group ~= '' then join_group(name, group) end
  allow_connections(PACED and group ~= '' and load_group(group) or load_host(name), connections)
end

local items, touched, found = cmsgpack.unpack(ARGV[6]), {}, {}
for at = 2, #items, FIELDS do touched[#touched + 1] = items[at] end
fetch_hosts(touched)

for at = 1, #items, FIELDS do
  local kind, name, level, entry, bits, key, sampled = unpack(items, at, at + FIELDS - 1)
  local layer = seen(kind, bits, key, sampled)
  if NOVELTY and NOVELTY.per_mention > 0 and kind == KIND.LINK then load_host(name).mentions = (load_host(name).mentions or 0) + 1 end
  if layer then
    count('duplicates', 1)
    if kind == KIND.LINK then found_again(name, level, entry) end
  else
    if kind == KIND.FILTERED then
      count('filtered:' .. entry, 1)
    elseif kind == KIND.SET_ASIDE then
      local pattern, why, real_entry, url_key = unpack(cmsgpack.unpack(entry))
      if set_aside(name, pattern, why, KIND.LINK, level, real_entry, url_key) then append(name, level, real_entry) end
    else
      append(name, level, entry)
    end
    if kind == KIND.LINK then first_found(name, level, entry) end
    note(kind, bits, key, sampled)
    discovered = discovered + 1
  end
  found[#found + 1] = layer or 0
end
for key, entries in pairs(queues) do call_in_pieces('RPUSH', key, entries) end
count('queued', queued)
count('discovered', discovered)
count('duplicates', tonumber(ARGV[7]))
local homes = cmsgpack.unpack(ARGV[9])
for at = 1, #homes, 3 do
  if hosts[homes[at]] then settle_in(unpack(homes, at, at + 2)) end
end
save_hosts()
mark_all()
save_counts()
redis.call('HSET', META, pushes, ARGV[3])
if ARGV[10] ~= '' and not NOVELTY and redis.call('ZCARD', WORKERS) > 1 and server() == ARGV[11] then
  local most = math.min(MOST_UPDATES, math.ceil(BYTES_OF_UPDATES / #ARGV[10]))
  redis.call('XADD', UPDATES, 'MAXLEN', most, '*', ARGV[2], ARGV[10])
end
if redis.call('HINCRBY', LAYERS, 'items:' .. (known - 1), new_items) >= tonumber(ARGV[5]) then
  open = redis.call('HINCRBY', LAYERS, 'open', 1)
end
return {open, cmsgpack.pack(found)}
