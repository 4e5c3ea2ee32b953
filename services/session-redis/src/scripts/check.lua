return { has_ended(id, owner, issued) and 'ended' or 'ok' }
