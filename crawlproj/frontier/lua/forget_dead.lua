#!lua flags=allow-oom
-- Throws dead letters away: the ledger counts them as filtered, so that it still balances.
-- One that cannot be read stays where it is.
--
-- ARGV  2 msgpack list of the letters' numbers
-- Reply letters that were thrown away
--include _crawl.lua
--include _damage.lua
local forgotten = 0
for _, number in ipairs(cmsgpack.unpack(ARGV[2])) do
  local packed = redis.call('HGET', DEAD, number)
  local _, _, _, reason = read_url(packed)
  if type(reason) == 'string' then
    redis.call('HDEL', DEAD, number)
    count('dead', -1)
    count('dead:' .. reason, -1)
    count('filtered:forgotten', 1)
    forgotten = forgotten + 1
  end
end
save_counts()
return forgotten
