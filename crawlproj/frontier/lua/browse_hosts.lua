#!lua flags=no-writes
-- Tells of some hosts of one shard, from where the call before has ended, for who looks for some of
-- them: a call takes a few milliseconds however many there are. Changes nothing.
--
-- KEYS  as in _keys.lua
-- ARGV  1 where to go on, '0' at first; 2 hosts to look at, about (Redis gives whole buckets)
--       3 text that their names must contain, in lower case; '' for any
-- Reply {now in ms, by the crawl's clock; where to go on, '0' when there are no more; hosts looked at
--        of each that fits: name, record, URLs in its queue, when it may be contacted (ms) or ''}
--include _keys.lua
--include _looking.lua
local found, hosts = redis.call('HSCAN', HOSTS, ARGV[1], 'COUNT', ARGV[2]), {}
for i = 1, #found[2], 2 do
  local name, packed = found[2][i], found[2][i + 1]
  if ARGV[3] == '' or name:find(ARGV[3], 1, true) then
    local n = #hosts
    hosts[n + 1], hosts[n + 2], hosts[n + 3] = name, packed, count_queued(name, packed)
    hosts[n + 4] = redis.call('ZSCORE', WAITING, name) or ''
  end
end
return {now, found[1], #found[2] / 2, hosts}
