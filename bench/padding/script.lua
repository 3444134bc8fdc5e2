-- A load for Lua: each turn builds, searches, sorts and joins, and then asks for the time, which counts as progress.
local function words(n)
    local all = {}
    for i = 1, n do
        all[i] = string.format("w%d-%x", i * 7919 % n, i)
    end
    return all
end

local function counter()
    local count = 0
    return function() count = count + 1; return count end
end

while true do
    local all = words(60)
    table.sort(all)
    local text = table.concat(all, " ")
    local seen = {}
    for word in string.gmatch(text, "%w+") do
        seen[word] = (seen[word] or 0) + 1
    end
    local upper = string.gsub(text, "w(%d+)", function(digits) return string.upper("n") .. digits end)
    local next_number = counter()
    for key in pairs(seen) do
        seen[key] = next_number() .. key
    end
    assert(#upper == #text)
    local made = setmetatable({}, { __index = function(_, key) return key * 2 end })
    local sum = 0
    for i = 1, 40 do
        sum = sum + made[i]
    end
    assert(sum == 1640 and select("#", table.unpack(all)) == 60)
    os.clock()
end
