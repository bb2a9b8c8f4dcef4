#!lua
-- Tells of each page which one, met before, its text is the nearest copy of, and keeps the fingerprints
-- of those that are near-copies of none. Refused when Redis is out of memory. A page that is asked
-- about again, because the reply was lost or it was fetched again, is no copy of itself. Of one that is
-- revisited nothing more is kept: a crawl that goes on would keep each version of each page.
--
-- NEAR has  n                     how many pages are kept
--           p + number            a page's fingerprint and URL; the number is four bytes
--           b + band + 12 bits    of the pages whose band begins with these bits: 16 bits more of
--                                 it and the page's number, of one page after the other
--
-- ARGV  2 share of the places in which two fingerprints must agree, of those that are filled
--       3 msgpack list of URL, fingerprint, bands (fingerprint.py), whether it is revisited, of one page after
--         the other
-- Reply msgpack list of the URL that each is a near-copy of, or ''
--include _crawl.lua
local LEAST, PLACES, BAND, RECORD = tonumber(ARGV[2]), 60, 6, 6
local MOST_ALIKE, MOST_BYTES = 8, 65536  -- pages of one band that are looked at; bytes of one field
local NO_BAND = string.rep('\0', BAND)

-- Where a page's bands are kept, and what each is told by there; nothing for a band that is empty.
local function places_of(fingerprint, bands)
  local fields, tags = {}, {}
  for band = 0, #bands / 4 - 1 do
    if fingerprint:sub(band * BAND + 1, (band + 1) * BAND) ~= NO_BAND then
      local first, second = bands:byte(band * 4 + 1, band * 4 + 2)
      fields[#fields + 1] = 'b' .. string.char(band, first, second - second % 16)
      tags[#tags + 1] = bands:sub(band * 4 + 3, band * 4 + 4)
    end
  end
  return fields, tags
end

-- The fields of pages that have one of the bands, each once.
local function candidates_in(kept, tags)
  local found, known = {}, {}
  for i, tag in ipairs(tags) do
    local records, at, times = kept[i] or '', 1, 0
    at = records:find(tag, at, true)
    while at and times < MOST_ALIKE do
      if (at - 1) % RECORD == 0 then
        local field = 'p' .. records:sub(at + 2, at + 5)
        if not known[field] then found[#found + 1] = field end
        known[field], times = true, times + 1
      end
      at = records:find(tag, at + 1, true)
    end
  end
  table.sort(found)
  return found
end

-- The share of the filled places in which two agree.
local function resemblance(one, other)
  local ones, others, same, filled = {one:byte(1, PLACES)}, {other:byte(1, PLACES)}, 0, 0
  for i = 1, #ones do
    if ones[i] ~= others[i] then
      filled = filled + 1
    elseif ones[i] > 0 then
      same, filled = same + 1, filled + 1
    end
  end
  return same / math.max(filled, 1)
end

-- The URL of the nearest, the first of those that are equally near; the page's own if that is near.
local function nearest(url, fingerprint, kept, tags)
  local candidates, found, best = candidates_in(kept, tags), nil, 0
  local records = #candidates > 0 and redis.call('HMGET', NEAR, unpack(candidates)) or {}
  for i = 1, #candidates do
    local record = records[i]
    local near = record and #record > PLACES and resemblance(fingerprint, record) or 0
    if near >= LEAST then
      local candidate = record:sub(PLACES + 1)
      if candidate == url then return url end
      if near > best then found, best = candidate, near end
    end
  end
  return found
end

local function keep(url, fingerprint, fields, tags, kept)
  local number = struct.pack('>I4', redis.call('HINCRBY', NEAR, 'n', 1))
  local changes = {'p' .. number, fingerprint .. url}
  for i, field in ipairs(fields) do
    changes[#changes + 1] = field
    changes[#changes + 1] = ((kept[i] or '') .. tags[i] .. number):sub(-(MOST_BYTES - MOST_BYTES % RECORD))
  end
  redis.call('HSET', NEAR, unpack(changes))
end

local pages, answers = cmsgpack.unpack(ARGV[3]), {}
for at = 1, #pages, 4 do
  local url, fingerprint, bands, is_revisit = unpack(pages, at, at + 3)
  local fields, tags = places_of(fingerprint, bands)
  local kept = #fields > 0 and redis.call('HMGET', NEAR, unpack(fields)) or {}
  local found = nearest(url, fingerprint, kept, tags)
  if not found and not is_revisit then keep(url, fingerprint, fields, tags, kept) end
  answers[#answers + 1] = found and found ~= url and found or ''
end
return cmsgpack.pack(answers)
