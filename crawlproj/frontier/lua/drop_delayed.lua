#!lua flags=allow-oom
-- Deletes URLs that wait for another attempt, as a user asks.
--
-- ARGV  2 msgpack list of members of DELAYED, as they stand there
-- Reply URLs deleted
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
--include _dead_letters.lua
--include _outcomes.lua
local gone = 0
for _, packed in ipairs(cmsgpack.unpack(ARGV[2])) do
  local name, level, entry = read_url(packed)
  if name and redis.call('ZREM', DELAYED, packed) == 1 then
    reserve(name, level, -1)
    note_outcome(name, entry, 'scrapy drop', 0, 'deleted')
    gone = gone + 1
  end
end
count('delayed', -gone)
count('filtered:deleted', gone)
save_hosts()
save_counts()
return gone
