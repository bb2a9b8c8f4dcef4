#!lua
-- Queues dead letters again, as if neither they nor their hosts had failed. One that cannot be read
-- stays where it is. Refused as a whole when Redis is out of memory.
--
-- ARGV  2 msgpack list of the letters' numbers
-- Reply URLs that were queued again; those whose letter was gone already are not among them
-- Error FINISHED: the crawl has to be opened again first
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
if STATE == 'finished' then return redis.error_reply('FINISHED the crawl has finished') end
local queued = 0
for _, number in ipairs(cmsgpack.unpack(ARGV[2])) do
  local packed = redis.call('HGET', DEAD, number)
  local name, level, entry, reason = read_url(packed)
  if type(reason) == 'string' then
    enqueue(name, level, '\0' .. entry:sub(2), false)
    load_host(name).failures, load_host(name).hold = nil, nil
    redis.call('HDEL', DEAD, number)
    count('dead', -1)
    count('dead:' .. reason, -1)
    queued = queued + 1
  end
end
save_hosts()
save_counts()
return queued
