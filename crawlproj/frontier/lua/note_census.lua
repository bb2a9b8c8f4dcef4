#!lua flags=allow-oom
-- Notes what a census of resting URLs has found, which all workers go by, and when those that were
-- looked at are due by it. One that has been woken since is left alone.
--
-- ARGV  2 what was found, as text; 3 fetches a second that this shard has of the crawl's budget
--       4 msgpack list of number, when it is due (ms), of one URL after the other
-- Reply 1
--include _crawl.lua
redis.call('HSET', META, 'census', ARGV[2], 'refresh', ARGV[3])
local scores, times = {}, cmsgpack.unpack(ARGV[4])
for i = 1, #times, 2 do
  scores[i], scores[i + 1] = times[i + 1], times[i]
end
for first = 1, #scores, PIECE do
  redis.call('ZADD', DUE, 'XX', unpack(scores, first, math.min(first + PIECE - 1, #scores)))
end
return 1
