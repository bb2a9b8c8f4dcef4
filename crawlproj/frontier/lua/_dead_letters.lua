-- Included after _hosts.lua where URLs are given up: the dead letters, one a URL. A crawl that never
-- ends may give the same URL up again and again: the latest letter replaces the one before, which
-- the ledger then counts as filtered.

-- The field of DEAD for a URL: a number made of what is asked for.
local function dead_letter_number(name, entry)
  return ('%.0f'):format(tonumber(redis.sha1hex(what_is_asked(name, entry)):sub(1, 13), 16))
end

-- The reason of a letter and how often its URL has been given up; nothing if it cannot be read.
local function read_dead_letter(packed)
  local ok, _, _, _, reason, _, times = pcall(cmsgpack.unpack, packed or nil)
  if ok and type(reason) == 'string' then return reason, tonumber(times) or 1 end
end

local function add_dead_letter(name, level, entry, reason)
  local field = dead_letter_number(name, entry)
  local earlier, times = read_dead_letter(redis.call('HGET', DEAD, field))
  if earlier then
    count('dead', -1)
    count('dead:' .. earlier, -1)
    count('filtered:dead_again', 1)
  end
  redis.call('HSET', DEAD, field, cmsgpack.pack(name, level, entry, reason, NOW, (times or 0) + 1))
  count('dead', 1)
  count('dead:' .. reason, 1)
end
