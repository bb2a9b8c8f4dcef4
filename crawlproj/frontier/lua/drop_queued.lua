#!lua flags=allow-oom
-- Deletes URLs of one queue of a host, as a user asks: some from its front a call. What stays goes to
-- its end, so that after a round the queue stands as it did, and the next call has others in front.
--
-- ARGV  2 host, 3 level, 4 msgpack list of entries, as the caller has read them from the front
--       5 msgpack list of those among them that are to be deleted; '' for the whole queue at once
-- Reply {entries that were at the front as told, entries deleted}
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _dead_letters.lua
--include _outcomes.lua
local REASON = 'deleted'
local name, level = ARGV[2], tonumber(ARGV[3])
local key = queue_of(name, level)

local function deleted(entries)
  for _, entry in ipairs(entries) do
    if NOVELTY then forget_found(name, entry) end
    note_outcome(name, entry, 'scrapy drop', 0, REASON)
  end
  reserve(name, level, -#entries)
  count('queued', -#entries)
  count('filtered:' .. REASON, #entries)
end

local function delete_all()
  local urls = redis.call('LLEN', key)
  redis.call('UNLINK', key)
  reserve(name, level, -urls)
  count('queued', -urls)
  count('filtered:' .. REASON, urls)
  return {urls, urls}
end

-- Others lease from the front and put back there: only what the caller has seen is passed on.
local function delete_some()
  local known, doomed, gone, stays = {}, {}, {}, {}
  local told = cmsgpack.unpack(ARGV[4])
  for _, entry in ipairs(told) do known[entry] = true end
  for _, entry in ipairs(cmsgpack.unpack(ARGV[5])) do doomed[entry] = true end
  local front = redis.call('LRANGE', key, 0, #told - 1)
  local seen = 0
  while seen < #front and known[front[seen + 1]] do
    seen = seen + 1
    local entry = front[seen]
    local into = doomed[entry] and gone or stays
    into[#into + 1] = entry
  end
  if seen == 0 then return {0, 0} end
  redis.call('LTRIM', key, seen, -1)
  call_in_pieces('RPUSH', key, stays)
  deleted(gone)
  return {seen, #gone}
end

if redis.call('HEXISTS', HOSTS, name) == 0 then return {0, 0} end
load_host(name)
local done = ARGV[5] == '' and delete_all() or delete_some()
drop_empty_level(name, level)
save_hosts()
save_counts()
return done
