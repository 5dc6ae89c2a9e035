"""What both sides share of the protocol: members, pages, links, extensions."""
