"""Local events: places, waitlists, home pages, leaderboards of what is ahead, and mails that follow from commits."""
